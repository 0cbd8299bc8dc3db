import cProfile, pstats, sys, time, torch, zeroulp, io
def k(a,b): return a@b
for n in map(int, sys.argv[1:]):
    p=zeroulp.Matmul(n,n,n,a="float16")
    for _ in range(2):
        s=time.perf_counter(); r=zeroulp.check(k,p,framework="torch",device="cuda",seed=1); e=time.perf_counter()-s
    print(n, r.verdict, r.calls, r.seconds, e, flush=True)
    pr=cProfile.Profile(); pr.enable(); zeroulp.check(k,p,framework="torch",device="cuda",seed=1); pr.disable()
    o=io.StringIO(); pstats.Stats(pr,stream=o).sort_stats("tottime").print_stats(18); print("\n".join(l for l in o.getvalue().splitlines()[4:] if l.strip()))
    o=io.StringIO(); pstats.Stats(pr,stream=o).sort_stats("cumtime").print_stats(90); print("\n".join(l[:110] for l in o.getvalue().splitlines()[7:] if "zeroulp" in l))
