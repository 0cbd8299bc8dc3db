import sys, time, numpy as np, zeroulp
from collections import Counter
from zeroulp.checks import bench, inputs
J=Counter(); F=Counter(); T=Counter(); X=Counter(); name={}
def wrap(cls, attr, D):
    old=getattr(cls,attr)
    def new(self,*a,**k):
        s=time.perf_counter(); r=old(self,*a,**k); D[cur[0]]+=time.perf_counter()-s; return r
    setattr(cls,attr,new)
cur=[None]
ob=bench.Bench._observe
def o(self,trial,*a,**k):
    cur[0]=trial.index; name[trial.index]=(trial.probe,trial.certificate.theorem[:5],trial.settings,trial.changed); s=time.perf_counter(); r=ob(self,trial,*a,**k); T[trial.index]+=time.perf_counter()-s; return r
bench.Bench._observe=o
C=Counter()
from zeroulp.runner.base import Executor
wrap(bench.Bench,"_judged",J); wrap(bench.Bench,"_feed",F); wrap(inputs.Inputs,"fill",X); wrap(bench.Bench,"_call",C)
def k(a,b): return (a.astype(np.float32)@b.astype(np.float32)).astype(np.float16)
n=int(sys.argv[1])
for rep in range(2):
    for d in (J,F,T,X,C): d.clear()
    r=zeroulp.check(k,zeroulp.Matmul(n,n,n,a="float16"),seed=1)
print(n,r.verdict,r.seconds,"feed",sum(F.values()),"fill",sum(X.values()),"judge",sum(J.values()),"call",sum(C.values()),"all",sum(T.values()))
for i in T: print(i,f"all {T[i]*1e3:.1f} feed {F[i]*1e3:.1f} fill {X[i]*1e3:.1f} judge {J[i]*1e3:.1f} call {C[i]*1e3:.1f} other {(T[i]-F[i]-J[i]-C[i])*1e3:.1f}",name[i])
