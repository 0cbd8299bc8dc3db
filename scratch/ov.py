import sys, collections; sys.path.insert(0,"benchmarks")
import torch, zeroulp, cProfile, pstats, io, time
import verification as V
from zeroulp.arrays import Torch
from zeroulp.checks.inputs import draw_inputs
from zeroulp.plan import make_plan
from torch.utils._python_dispatch import TorchDispatchMode
torch.set_num_threads(1)
D=V.Device(Torch(torch.device("cpu")), torch.matmul, lambda: None)
class Count(TorchDispatchMode):
    def __init__(self): super().__init__(); self.c=collections.Counter()
    def __torch_dispatch__(self,f,t,a=(),k=None):
        n=str(f); self.c[n]+=1; return f(*a,**(k or {}))
n=int(sys.argv[1]); fmt=sys.argv[2]
p=zeroulp.Matmul(n,n,n,a=fmt); trials=make_plan(p).trials
for probe in sys.argv[3].split(","):
    t=next(t for t in trials if t.probe==probe)
    b=V.Bench(D, draw_inputs(p,t,1))
    if len(sys.argv)>4:
        for i in range(int(sys.argv[4])): b.result[37*i%n, 91*i%n]^=1
    f=b.verify
    for _ in range(3): f()
    with Count() as c: f()
    views={"view","as_strided","slice","select","unsqueeze","transpose","t","detach","expand","permute","_unsafe_view","reshape","alias"}
    launches={k:v for k,v in c.c.items() if k.split(".")[1] not in views}
    s=time.perf_counter()
    for _ in range(5): f()
    print("=====",probe,t.certificate.theorem,{k:v for k,v in t.settings.items()},"ms",200*(time.perf_counter()-s),"ops",sum(c.c.values()),"launches",sum(launches.values()))
    print(sorted(launches.items(), key=lambda x:-x[1]))
    pr=cProfile.Profile(); pr.enable(); f(); pr.disable(); o=io.StringIO(); pstats.Stats(pr,stream=o).sort_stats("cumtime").print_stats(45); print("\n".join(l[:120] for l in o.getvalue().splitlines()[7:] if l.strip()))
