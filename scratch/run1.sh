mkdir -p /tmp/g; cd $PWD
export PYTHONPATH=src
( time timeout 260 python3 -m pytest -m gpu tests/gpu -W default -q -n 14 -p no:cacheprovider ) 2>&1 | tail -25
for j in 1 2 4 6; do for i in none process; do
 s=$(date +%s.%N); timeout 120 python3 -m zeroulp check scratch/mk.py:matmul --framework torch --device cuda --a float16 --grid 64,256,1024,4096,16384 --jobs $j --isolate $i --json /tmp/g/$j$i.jsonl > /tmp/g/$j$i.txt 2>&1; rc=$?
 e=$(date +%s.%N); echo "jobs $j $i rc $rc $(echo "$e - $s" | bc)"; tail -3 /tmp/g/$j$i.txt | cut -c1-150
done; done
