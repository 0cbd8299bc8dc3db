import torch, time, numpy as np, zeroulp
from zeroulp.arrays import Torch, HOST
from zeroulp.arrays.fused import Triton
A=Torch(torch.device("cuda",0)); T=A.fused
print("fused", T)
s=time.perf_counter(); print(T._draws_the_same(), T._hashes_the_same()); print("cold", time.perf_counter()-s)
for d in (torch.float16,torch.bfloat16,torch.float32,torch.float8_e4m3fn,torch.float8_e5m2):
    try: print(d, T._stores_the_same(d), time.perf_counter()-s)
    except Exception as e: print(d, repr(e)[:300])
for n in ("float16","bfloat16","float32","e4m3","e5m2"):
    try: print(n, T._sums_up_the_same(zeroulp.Matmul(1,1,1,a=n,out="float32").a_format), time.perf_counter()-s)
    except Exception as e: print(n, repr(e)[-300:])
