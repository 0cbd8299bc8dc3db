import time, torch, sys
print(torch.__version__, torch.cuda.get_device_name())
def t(f, n=5):
    f(); torch.cuda.synchronize(); best=1e9
    for _ in range(n):
        s=time.perf_counter(); f(); torch.cuda.synchronize(); best=min(best,time.perf_counter()-s)
    return best*1e3
N=8192
dev='cuda'
a=torch.randint(-1,2,(N,N),device=dev).to(torch.bfloat16)
print("cublas bf16", t(lambda: a@a))
V=torch.randint(-2**15,2**15,(N,3),device=dev).to(torch.float64)
for v in (1,2,3,4,8):
    W=torch.randint(-2**15,2**15,(N,v),device=dev).to(torch.float64)
    x=a.to(torch.float64)
    print("skinny dgemm", v, t(lambda: x@W), "T", t(lambda: W.T.contiguous()@x))
print("to f64", t(lambda: a.to(torch.float64)), "to f32", t(lambda: a.to(torch.float32)))
x32=a.to(torch.float32)
print("f32 round", t(lambda: x32.round()), "eq", t(lambda: torch.equal(x32,x32)), "f32->f64", t(lambda: x32.to(torch.float64)), "mul bcast", t(lambda: x32*x32[0]))
print("amax abs bf16", t(lambda: torch.aminmax(a)), "f32", t(lambda: torch.aminmax(x32)))
P=torch.randint(-2**15,2**15,(N,64),device=dev).to(torch.float64)
print("dgemm 64", t(lambda: x@P))
T=torch.randn(N,896,device=dev).to(torch.bfloat16); idx=torch.randint(0,896,(N,),device=dev)
print("gather cols", t(lambda: T[:,idx]), t(lambda: T.index_select(1,idx)), "then equal", t(lambda: torch.equal(T.index_select(1,idx),a)))
print("rowgather+", t(lambda: T.T.contiguous().index_select(0,idx)))
words=N*N
from zeroulp.arrays import Torch
A=Torch(torch.device(dev,0))
print("words whole", t(lambda: A.words(12345,0,words)))
def blocks():
    for lo in range(0,words,1<<23): A.words(12345,lo,1<<23)
print("words by 2^23", t(blocks))
# jiterator
try:
    code="""template <typename T> T mix(T i, T key){ unsigned long long z=(unsigned long long)i*0x9E3779B97F4A7C15ULL+(unsigned long long)key; z^=z>>30; z*=0xBF58476D1CE4E5B9ULL; z^=z>>27; z*=0x94D049BB133111EBULL; return (T)(z^(z>>31)); }"""
    s=time.perf_counter(); f=torch.cuda.jiterator._create_jit_fn(code, key=0); 
    ar=torch.arange(1,5,device=dev); r=f(ar,key=12345).view(torch.int32); torch.cuda.synchronize()
    print("jiterator first", time.perf_counter()-s, torch.equal(r, A.words(12345,0,8)))
    ar=torch.arange(1,words//2+1,device=dev)
    print("jit words", t(lambda: f(ar,key=12345)), "arange", t(lambda: torch.arange(1,words//2+1,device=dev)))
except Exception as e: print("jiterator failed", repr(e)[:300])
try:
    import triton, triton.language as tl
    s=time.perf_counter()
    @triton.jit
    def kwords(out, key, n, B: tl.constexpr):
        i=tl.program_id(0).to(tl.int64)*B+tl.arange(0,B)
        z=(i+1).to(tl.uint64)*0x9E3779B97F4A7C15+key.to(tl.uint64)
        z=z^(z>>30); z=z*0xBF58476D1CE4E5B9; z=z^(z>>27); z=z*0x94D049BB133111EB; z=z^(z>>31)
        tl.store(out+i, z.to(tl.int64), mask=i<n)
    o=torch.empty(words//2,dtype=torch.int64,device=dev)
    def run(): kwords[(triton.cdiv(words//2,1024),)](o,12345,words//2,B=1024)
    run(); torch.cuda.synchronize(); print("triton first", time.perf_counter()-s, torch.equal(o.view(torch.int32)[:8],A.words(12345,0,8)))
    print("triton words", t(run))
    @triton.jit
    def times(c, v, y, bad, n, limit, V: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
        r=tl.program_id(0)*BR+tl.arange(0,BR)
        acc0=tl.zeros((BR,),tl.float64); acc1=tl.zeros((BR,),tl.float64); acc2=tl.zeros((BR,),tl.float64); w=tl.zeros((BR,),tl.int32)
        for lo in range(0,n,BC):
            k=lo+tl.arange(0,BC)
            x=tl.load(c+r[:,None].to(tl.int64)*n+k[None,:]).to(tl.float32)
            okay=(tl.abs(x)<=limit)&(x==tl.floor(x))
            w=w|tl.max((~okay).to(tl.int32),1)
            d=x.to(tl.float64)
            acc0+=tl.sum(d*tl.load(v+k)[None,:],1)
            acc1+=tl.sum(d*tl.load(v+n+k)[None,:],1)
            acc2+=tl.sum(d*tl.load(v+2*n+k)[None,:],1)
        tl.store(y+r,acc0); tl.store(y+r+n,acc1); tl.store(y+r+2*n,acc2); tl.store(bad+r,w)
    y=torch.empty(3,N,dtype=torch.float64,device=dev); bad=torch.empty(N,dtype=torch.int32,device=dev); vt=V.T.contiguous()
    for BR,BC in ((1,1024),(4,256),(8,128),(4,512),(16,128)):
        def run(): times[(N//BR,)](a,vt,y,bad,N,1e9,V=3,BR=BR,BC=BC)
        s=time.perf_counter(); run(); torch.cuda.synchronize(); f=time.perf_counter()-s
        print("triton times",BR,BC,"first",f, t(run), torch.equal(y,(x@V).T), int(bad.sum()))
except Exception as e:
    import traceback; traceback.print_exc()
