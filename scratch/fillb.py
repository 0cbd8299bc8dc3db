import sys, time, numpy as np, zeroulp
sys.path.insert(0,"benchmarks")
from verification import Bench, Device
from zeroulp.checks.inputs import draw_inputs
from zeroulp.plan import make_plan
D=Device.named("cpu"); n=int(sys.argv[1])
p=zeroulp.Matmul(n,n,n,a="float16"); seen=set()
def best(f,k=5):
    b=9e9
    for _ in range(k):
        s=time.thread_time(); f(); b=min(b,time.thread_time()-s)
    return b*1e3
tf=tv=0
for t in make_plan(p).trials:
    key=(t.probe,str(t.settings))
    if key in seen or t.based_on is not None: continue
    seen.add(key)
    b=Bench(D,draw_inputs(p,t,1))
    k=best(b.product,2)
    f=best(b.fill); v=best(b.verify) if b.can else 0
    tf+=f; tv+=v
    print(f"{t.probe:10s} kernel {k:6.1f} fill {f:6.1f} verify {v:6.1f}", t.settings)
print(tf,tv)
