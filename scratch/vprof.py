import sys, time, numpy as np, zeroulp, cProfile, pstats, io
sys.path.insert(0,"benchmarks")
from verification import Bench, Device
from zeroulp.checks.inputs import draw_inputs
from zeroulp.plan import make_plan
D=Device.named("cpu"); n=int(sys.argv[1]); which=sys.argv[2]
p=zeroulp.Matmul(n,n,n,a="float16")
t=next(t for t in make_plan(p).trials if t.probe==sys.argv[3])
b=Bench(D,draw_inputs(p,t,1)); f=getattr(b,which)
f()
pr=cProfile.Profile(); pr.enable(); f();f();f(); pr.disable()
o=io.StringIO(); pstats.Stats(pr,stream=o).sort_stats("tottime").print_stats(26); print("\n".join(l[:120] for l in o.getvalue().splitlines()[4:] if l.strip()))
