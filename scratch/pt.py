import sys, time, torch, zeroulp
from collections import Counter, defaultdict
from zeroulp.checks import bench, inputs
J=Counter(); F=Counter(); T=Counter(); X=Counter(); name={}
def sync(): torch.cuda.synchronize()
def wrap(cls, attr, D, key):
    old=getattr(cls,attr)
    def new(self,*a,**k):
        sync(); s=time.perf_counter(); r=old(self,*a,**k); sync(); D[cur[0]]+=time.perf_counter()-s; return r
    setattr(cls,attr,new)
cur=[None]
ob=bench.Bench._observe
def o(self,trial,*a,**k):
    cur[0]=trial.index; name[trial.index]=(trial.probe,trial.certificate.theorem[:5],bool(trial.settings.get("pool")),trial.settings.get("kind"),trial.settings.get("alike"),trial.settings.get("terms")); sync(); s=time.perf_counter(); r=ob(self,trial,*a,**k); sync(); T[trial.index]+=time.perf_counter()-s; return r
bench.Bench._observe=o
wrap(bench.Bench,"_judged",J,None); wrap(bench.Bench,"_feed",F,None); wrap(inputs.Inputs,"fill",X,None)
def k(a,b): return a@b
for n in map(int,sys.argv[1:]):
    for rep in range(2):
        for d in (J,F,T,X): d.clear()
        r=zeroulp.check(k,zeroulp.Matmul(n,n,n,a="float16"),framework="torch",device="cuda",seed=1)
    print(n,r.verdict,r.seconds,"feed",sum(F.values()),"fill",sum(X.values()),"judge",sum(J.values()),"all",sum(T.values()))
    for i in T: print(i,name[i],f"all {T[i]*1e3:.1f} feed {F[i]*1e3:.1f} fill {X[i]*1e3:.1f} judge {J[i]*1e3:.1f}")
