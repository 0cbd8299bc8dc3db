import zeroulp,time,sys,os
def k(a,b): return a@b
os.makedirs("build",exist_ok=True)
for n in (64,64,128,256,512,1024,2048,4096,8192,12288,16384):
    p=zeroulp.Matmul(n,n,n,a="float16")
    for _ in range(2):
        s=time.perf_counter(); r=zeroulp.check(k,p,framework="torch",device="cuda",seed=1); e=time.perf_counter()-s
    print(n, r.verdict.name, round(e,4), r.seconds, r.calls,flush=True)
