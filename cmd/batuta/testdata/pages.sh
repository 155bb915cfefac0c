# The world of TestCommandsOfPagesAreRun: the hosts and files that the pages name.
set -eu # until the mounts stand, what follows would change the machine itself
failed=0
for host in 1 2 3 4 5 6 7; do ip addr add 10.0.0.$host/32 dev lo; done
for host in 3 4 5; do ip addr add 172.18.0.$host/32 dev lo; done
ip link set lo up
ip link add eth0 type veth peer name far
ip link set far up
ip addr add 10.0.0.50/24 dev eth0
ip link set eth0 up

mkdir -p "$W"/{bin,lib,run/batuta,home}
cp -a /etc "$W/etc"
mount --bind "$W/etc" /etc
mount --bind "$W/lib" /var/lib
mount --bind "$W/run" /run
mount --bind "$W/bin" /usr/local/bin
for i in 1 2 3; do echo "10.0.0.$i db$i db$i.example"; done >>/etc/hosts
ln -s "$SELF" "$W/bin/batuta"
for name in page report ssh systemctl; do printf '#!/bin/sh\nexit 0\n' >"$W/bin/$name"; done
printf '#!/bin/sh\nshift 2\nexec "$@"\n' >"$W/bin/sudo"
export PATH="$W/bin:$PATH" HOME="$W/home" SYSTEM_CONFIG=/etc/batuta.yaml
cd "$W/home"
printf '#!/bin/sh\nexec sleep 1000\n' >worker
for name in migrate report; do printf '#!/bin/sh\nexit 0\n' >$name; done
chmod +x "$W"/bin/* worker migrate report
ln -s "$ROOT"/{election,examples,internal,go.mod} .
cp election/bully/testdata/bridge.txt crash.txt
batuta secret new >cluster.key
cp -p cluster.key /etc/batuta.key
cp -p cluster.key secret
echo shard-17 >elections.txt
echo 'report */5 * * * * /usr/local/bin/report' >/etc/batuta-jobs
mkdir -p /var/lib/batuta
cat >/etc/batuta.yaml <<'YAML'
cluster: payments
id: 1
listen: 10.0.0.1:7400
http: 127.0.0.1:7500
data-dir: /var/lib/batuta
secret-file: /etc/batuta.key
member:
  - 1=10.0.0.1:7400
  - 2=10.0.0.2:7400
  - 3=10.0.0.3:7400
YAML
set +e

fail() {
	failed=1
	echo "FAIL $1: $2"
	tail -n 15 "$3"
}

# ends LINE: it succeeds.
ends() {
	timeout 240 bash -c "$1" >"$W/out" 2>&1 </dev/null || fail "$1" "exit code $?" "$W/out"
}

# succeeds LINE: it succeeds in the end.
succeeds() {
	for try in $(seq ${TRIES:-240}); do
		timeout 60 bash -c "$1" >"$W/out" 2>&1 </dev/null && return
		sleep 0.5
	done
	fail "$1" "it never succeeds" "$W/out"
}

declare -A busy # the process that has a place
declare -A text # its line
declare -A output # the file that it writes to

# remains LINE: it begins, and goes on. A member takes the place of the members before, as on a machine of its own,
# unless the page has several on one machine.
remains() {
	local place=$1
	case $1 in batuta\ agent* | batuta\ run* | batuta\ witness* | batuta\ vip*)
		[ -n "${together:-}" ] || place=member
		;;
	esac
	leave "$place"
	[ "$place" != member ] || rm -rf /var/lib/batuta/*
	local out="$W/out.$RANDOM$RANDOM"
	bash -c "exec $1" >"$out" 2>&1 </dev/null &
	local pid=$!
	for try in $(seq 1200); do
		[ -s "$out" ] && break
		kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	[ -s "$out" ] || fail "$1" "it printed nothing" "$out"
	kill -0 $pid 2>/dev/null || { fail "$1" "it ended" "$out" && return; }
	busy["$place"]=$pid
	text["$place"]=$1
	output["$place"]=$out
}

# leave PLACE: what runs there ends.
leave() {
	local pid=${busy["$1"]:-}
	[ -z "$pid" ] && return
	kill -INT $pid
	for try in $(seq 600); do
		kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	kill -9 $pid 2>/dev/null # it has ignored the interrupt: the code shows that
	wait $pid
	local code=$?
	# A command that has printed its error may end only now.
	case $code in 0 | 130) ;; *) fail "${text["$1"]}" "it ended with exit code $code" "${output["$1"]}" ;; esac
	unset "busy[$1]"
}

finish() {
	for place in "${!busy[@]}"; do leave "$place"; done
	exit $failed
}

# member ID FLAG…: another member of the cluster.
member() {
	local id=$1
	shift
	batuta agent --config /etc/batuta.yaml --id $id --listen 10.0.0.$id:7400 --http off --data-dir "$W/member$id" "$@" >/dev/null 2>&1 &
}

three() {
	member 2
	member 3
	remains "batuta agent --config /etc/batuta.yaml --http ${1:-127.0.0.1:7500}"
}

# incident has agents at the ports that ssh forwards.
incident() {
	member 2 --http 127.0.0.1:7502
	member 3 --http 127.0.0.1:7503
	remains "batuta agent --config /etc/batuta.yaml --http 127.0.0.1:7500"
}

elections() {
	member 2 --elections-file elections.txt
	member 3 --elections-file elections.txt
}

# secured starts agents that ask for a token, over TLS by a secret, over TLS by a certificate, and on a socket.
secured() {
	sed -i '/db1/d' /etc/hosts
	echo 10.0.0.5 db1.example >>/etc/hosts
	echo "$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') operate" >token
	{ cat token && echo user:0 operate; } >tokens
	chmod 600 token tokens
	batuta tls ca --cluster payments --dir authority >/dev/null 2>&1
	batuta tls issue 5 --cluster payments --dir authority --host db1.example --host 10.0.0.5 >/dev/null 2>&1
	cp authority/ca.pem .
	local all="batuta agent --http-token-file tokens"
	$all --id 4 --listen 10.0.0.4:7400 --http 10.0.0.1:7500 --secret-file cluster.key >/dev/null 2>&1 &
	$all --id 5 --cluster payments --listen 10.0.0.5:7400 --http 10.0.0.5:7500 --http-host db1.example --tls-cert authority/5.pem --tls-key authority/5-key.pem --tls-ca ca.pem >/dev/null 2>&1 &
	$all --id 6 --listen 10.0.0.6:7400 --http unix:/run/batuta/http.sock --secret-file cluster.key >/dev/null 2>&1 &
	for agent in "10.0.0.1:7500 --secret-file cluster.key" unix:/run/batuta/http.sock; do
		succeeds "batuta status --agent $agent --http-token-file token" # before the page makes a new secret
	done
}

# floating has the scripts of an address of a cloud, and the device that the page names.
floating() {
	ip link add ens5 type veth peer name far5
	ip link set ens5 up
	mkdir -p "$W/local/batuta"
	cp examples/floating-address/*.sh "$W/local/batuta"
	cp examples/floating-address/*.sh .
	mount --bind "$W/local" /usr/local/lib
}

overlay() { remains "batuta superpeer agent --listen 10.0.0.1:7600 --secret-file secret --fraction 0.02 --capacity 100 --http off"; }
