export PYTHONPATH=src; O=$OUT; mkdir -p $O
( time timeout 200 python3 -m pytest -m gpu tests/gpu -W default -q -n 14 -p no:cacheprovider ) > $O/gpu.txt 2>&1; tail -15 $O/gpu.txt | cut -c1-200
for v in "4 none" "4 process"; do set -- $v
 s=$(date +%s.%N); timeout 100 python3 -m zeroulp check scratch/mk.py:matmul --framework torch --device cuda --a float16 --grid 64,256,1024,4096,16384 --jobs $1 --isolate $2 --json $O/g$1$2.jsonl > $O/g$1$2.txt 2>&1; rc=$?
 e=$(date +%s.%N); echo "jobs $1 $2 rc $rc $(echo "$e $s" | awk '{print $1-$2}') s" | tee -a $O/grid.txt; grep "time  " $O/g$1$2.txt
done
timeout 60 python3 scratch/vp.py > $O/vp.txt 2>&1
timeout 60 python3 scratch/grid.py 256 2048 > $O/prof.txt 2>&1
