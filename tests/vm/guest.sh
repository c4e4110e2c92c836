#!/bin/sh
# Runs as root in a freshly booted Debian 12 with systemd as its init; /t has muster, the units and a fake NVML.
# One line per fact: "ok NAME" or "FAIL NAME: what was seen".
PATH=/usr/local/bin:$PATH
export MUSTER_ADDR=tcp://127.0.0.1:7440
V2=/sys/fs/cgroup
WORKERS=$V2/system.slice/muster-workers.service

check() { # NAME COMMAND...
    name=$1
    shift
    if seen=$("$@" 2>&1); then echo "ok $name"; else echo "FAIL $name: $seen"; fi
}
until_true() { # SECONDS COMMAND...
    left=$1
    shift
    while ! "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || { "$@"; return 1; }
        echo "# waiting for $*" > /dev/ttyS0 # the run ends when nothing is printed
        sleep 1
    done
}
main_pid() { systemctl show -p MainPID --value "$1"; }
agent_lives() { [ "$(systemctl is-active muster-agent)" = active ] && [ "$(main_pid muster-agent)" != 0 ]; }
node_has() { muster nodes -o json | python3 -c "
import json, sys
node = [n for n in json.load(sys.stdin)['nodes'] if n['name'] == sys.argv[1]][0]
print(node)
sys.exit(0 if $2 else 1)" "$1"; }
job_is() { muster show -o json "$1" | grep -q "\"state\": *\"$2\""; }
worker_pid() { muster show -o json "$1" | python3 -c "import json, sys; print(json.load(sys.stdin)['workers'][0]['pid'])"; }
same() { echo "$1, $2"; [ "$1" = "$2" ]; }

install -m 755 /t/muster /usr/local/bin/muster
install -m 644 /t/systemd/*.service /etc/systemd/system/
install -m 644 /t/systemd/muster.sysusers /etc/sysusers.d/muster.conf 2>/dev/null || { mkdir -p /etc/sysusers.d; cp /t/systemd/muster.sysusers /etc/sysusers.d/muster.conf; }
systemd-sysusers
mkdir -p /etc/muster
echo 'OPTIONS=--rpc tcp://127.0.0.1:7440 --http 127.0.0.1:7480' > /etc/muster/coordinator.env
systemctl daemon-reload
systemctl start muster-coordinator
check coordinator_serves until_true 60 test -s /var/lib/muster/agent.token
export MUSTER_TOKEN=$(cat /var/lib/muster/admin.token)
install -m 600 /var/lib/muster/agent.token /etc/muster/agent.token
echo 'OPTIONS=--coordinator tcp://127.0.0.1:7440 --token-file /etc/muster/agent.token --name vm --slots 2' > /etc/muster/agent.env
mkdir -p /etc/systemd/system/muster-agent.service.d
printf '[Service]\nEnvironment=LD_LIBRARY_PATH=/t\n' > /etc/systemd/system/muster-agent.service.d/gpus.conf
systemctl daemon-reload
for gpu in 0 1; do mknod -m 666 /dev/nvidia$gpu c 195 $gpu; done
mknod -m 666 /dev/nvidiactl c 195 255
systemctl start muster-agent
check node_is_ready until_true 60 node_has vm "node['state'] == 'ready'"
check node_enforces_memory node_has vm "node['labels']['cgroup'] == 'v2' and not node.get('unenforced')"
check unit_has_the_agent_alone same "$(cat $V2/system.slice/muster-agent.service/cgroup.procs)" "$(main_pid muster-agent)"

long=$(muster submit -n long --memory 100MiB -- sleep 100000 | grep -o 'j[0-9]*' | head -1)
check job_runs until_true 60 job_is "$long" running
pid=$(worker_pid "$long")
group=$V2$(cut -d: -f3 "/proc/$pid/cgroup")
check worker_lives_below_its_unit sh -c "echo $group; case $group in $WORKERS/muster.*) ;; *) exit 1 ;; esac"
check worker_has_its_limit same "$(cat "$group/memory.max")" 104857600
check worker_has_its_limit_of_processes same "$(cat "$group/pids.max")" 8192
check worker_is_a_user_made_for_its_tenant sh -c "[ $(stat -c %u "/proc/$pid") -ge 1900000000 ]"
check worker_is_not_protected same "$(cat "/proc/$pid/oom_score_adj")" 500
check agent_is_protected same "$(cat "/proc/$(main_pid muster-agent)/oom_score_adj")" -900

# Without a coordinator: an emulated machine is slower than the lease, after which workers are replaced.
systemctl stop muster-coordinator
before=$(main_pid muster-agent)
systemctl restart muster-agent
check agent_restarts_beside_workers until_true 60 agent_lives
kill -9 "$(main_pid muster-agent)"
sleep 2
check agent_is_started_again_after_a_crash until_true 60 agent_lives
check it_is_another_process sh -c "[ $before != $(main_pid muster-agent) ]"
check worker_never_noticed kill -0 "$pid"
check its_limit_stands same "$(cat "$group/memory.max")" 104857600
systemctl start muster-coordinator
check node_is_ready_again until_true 60 node_has vm "node['state'] == 'ready'"

greedy() { muster run -n greedy --memory 64MiB --restarts 0 -- tail /dev/zero > /tmp/greedy 2>&1; muster why greedy >> /tmp/greedy; cat /tmp/greedy; grep -qi 'out of memory' /tmp/greedy; }
check memory_is_enforced until_true 5 greedy

says() { # TEXT SCRIPT: what a job says has it
    muster run -n probe --restarts 5 -- sh -c "$2" > /tmp/said 2>&1
    cat /tmp/said
    grep -q "$1" /tmp/said
}
# Minor numbers count down in the fake NVML.
gpus='own=$((1 - ${CUDA_VISIBLE_DEVICES#GPU-})); for pair in own:$own other:$((1 - own)) ctl:ctl; do (: < /dev/nvidia${pair#*:}) 2>&1 | sed "s/.*: /${pair%:*}=/"; done | tr "\n" " "'
check processes_of_others_are_hidden says '^hidden=[1-9]' 'ls -d /proc/1 2>/dev/null || echo hidden=$(ls /proc | grep -c "^[0-9]")'
check gpus_of_others_are_covered says '^own=No such device or address other=Permission denied ctl=No such device' "$gpus"
sed -i 's/^OPTIONS=/OPTIONS=--namespaces off --worker-processes 40 /' /etc/muster/agent.env
systemctl restart muster-agent
check agent_without_namespaces until_true 60 node_has vm "node['state'] == 'ready' and 'not private' in node['unenforced']"
check gpus_of_others_are_refused_by_the_cgroup says '^own=No such device or address other=Operation not permitted ctl=No such device' "$gpus"
check and_so_the_node_does_not_complain node_has vm "'GPU' not in node['unenforced']"
check processes_are_limited says 'Cannot fork' 'for i in $(seq 60); do sleep 30 & done; echo all of them'

install -m 644 /t/systemd/muster-coordinator.socket /etc/systemd/system/
systemctl daemon-reload
systemctl stop muster-coordinator
systemctl start muster-coordinator.socket
check the_port_is_systemds python3 -c "import socket; socket.create_connection(('127.0.0.1', 7440), 30).close()"
check a_call_starts_the_coordinator until_true 60 muster nodes
check it_is_on_that_port sh -c "[ $(systemctl is-active muster-coordinator) = active ]"
check node_is_back until_true 60 node_has vm "node['state'] == 'ready'"
before=$(main_pid muster-coordinator)
(sleep 1; muster nodes > /tmp/meanwhile 2>&1; echo $? > /tmp/meanwhile.rc) &
systemctl restart muster-coordinator
check a_call_meanwhile_is_served until_true 60 sh -c "cat /tmp/meanwhile; grep '^0$' /tmp/meanwhile.rc"
check it_is_another_coordinator sh -c "[ $before != $(main_pid muster-coordinator) ]"
check node_is_ready_after_that until_true 60 node_has vm "node['state'] == 'ready'"

agent_of_its_own() { # NAME COMMAND...: an agent as a user might start one
    name=$1
    shift
    "$@" muster agent --coordinator $MUSTER_ADDR --token-file /etc/muster/agent.token --name "$name" --slots 1 --data "/tmp/$name" --allow-root-workers > "/tmp/$name.log" 2>&1 &
}
agent_of_its_own scope systemd-run --quiet --scope -p Delegate=yes
check a_delegated_scope_enforces until_true 60 node_has scope "node['labels']['cgroup'] == 'v2'"
agent_of_its_own plain env
check elsewhere_the_node_says_why until_true 60 node_has plain "node['labels']['cgroup'] == 'none' and 'not delegated' in node['unenforced']"
agent_of_its_own boxed unshare --cgroup
check a_namespace_of_ours_enforces until_true 60 node_has boxed "node['labels']['cgroup'] in ('v2', 'none')"

check job_runs_still until_true 60 job_is "$long" running
pid=$(worker_pid "$long")
check its_worker_is_there kill -0 "$pid"
systemctl stop muster-workers
check stopping_the_workers_unit_ends_workers until_true 60 sh -c "! kill -0 $pid"
check and_the_agent_with_it same "$(systemctl is-active muster-agent)" inactive
