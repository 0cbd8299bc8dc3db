import cProfile, pstats, io, sys, time, numpy as np, zeroulp
n=int(sys.argv[1])
def k(a,b): return (a.astype(np.float32)@b.astype(np.float32)).astype(np.float16)
p=zeroulp.Matmul(n,n,n,a="float16")
for _ in range(2):
    r=zeroulp.check(k,p,seed=1); print(r.verdict.name,r.calls,r.seconds, r.seconds["check"]/r.seconds["kernel"],flush=True)
pr=cProfile.Profile(); pr.enable(); r=zeroulp.check(k,p,seed=1); pr.disable()
o=io.StringIO(); pstats.Stats(pr,stream=o).sort_stats("tottime").print_stats(32); print("\n".join(l[:120] for l in o.getvalue().splitlines()[7:] if l.strip()))
o=io.StringIO(); pstats.Stats(pr,stream=o).sort_stats("cumtime").print_stats(60); print("\n".join(l[:110] for l in o.getvalue().splitlines()[7:] if "zeroulp" in l))
