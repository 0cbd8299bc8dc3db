import sys; sys.path.insert(0,"benchmarks")
import torch, zeroulp, cProfile, pstats, io, time
import torch
from verification import Bench, Device
from zeroulp.checks.inputs import draw_inputs
from zeroulp.plan import make_plan
from torch.profiler import profile, ProfilerActivity
D=Device.named("cuda")
n=8192
for name in ("float16",):
    p=zeroulp.Matmul(n,n,n,a=name); trials=make_plan(p).trials
    for probe in ("signed","wide","one_hot","sparse"):
        t=next(t for t in trials if t.probe==probe)
        b=Bench(D, draw_inputs(p,t,1)); f=b.verify
        for _ in range(3): f()
        torch.cuda.synchronize(); s=time.perf_counter(); f(); torch.cuda.synchronize(); print("=====",name,probe,t.settings,"ms",1e3*(time.perf_counter()-s))
        with profile(activities=[ProfilerActivity.CUDA,ProfilerActivity.CPU]) as pr: f(); torch.cuda.synchronize()
        ev=[e for e in pr.key_averages() if e.device_time_total>0 and str(e.device_type).endswith("CUDA")]
        print("gpu total ms", sum(e.device_time_total for e in ev)/1e3, "launches", sum(e.count for e in ev))
        for e in sorted(ev,key=lambda e:-e.device_time_total)[:10]: print(f"{e.device_time_total/1e3:8.3f} ms x{e.count:4d} {e.key[:90]}")
        c=cProfile.Profile(); c.enable(); f(); c.disable(); o=io.StringIO(); pstats.Stats(c,stream=o).sort_stats("tottime").print_stats(16); print("\n".join(l[:120] for l in o.getvalue().splitlines()[7:] if l.strip()))
