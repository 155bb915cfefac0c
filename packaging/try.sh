#!/bin/bash
# Builds both packages from the module cache alone, installs each in a root of its own, and
# starts members there as a new user would, with the configuration that is in the
# package. Needs root, dpkg, rpm, systemd-sysusers and chroot.
# usage: packaging/try.sh
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
pids=()
trap 'for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; wait; rm -rf "$work"' EXIT

fail() {
	echo "FAILED: $*" >&2
	tail -n 5 "$work"/*.log >&2 || true
	exit 1
}

# await SECONDS WHAT COMMAND…: waits until the command succeeds.
await() {
	local late=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $late ] || fail "$what"
		sleep 0.2
	done
}

version=9.8.7
go -C packaging/tools build -o /dev/null github.com/goreleaser/nfpm/v2/cmd/nfpm # fills the module cache
(root=$PWD && cd "$work" && GOPROXY=off "$root/packaging/build.sh" $version)

deb=$work/deb rpm=$work/rpm
mkdir -p "$deb/var/lib/dpkg/info" "$deb/var/lib/dpkg/updates" "$rpm"
touch "$deb/var/lib/dpkg/status" "$deb/var/lib/dpkg/available"
dpkg --root="$deb" --log=/dev/null --force-script-chrootless --install "$work"/*.deb
rpm --root "$rpm" --initdb
rpm --root "$rpm" --install --nodeps --ignoreos "$work"/*.rpm

for root in "$deb" "$rpm"; do
	chroot "$root" /usr/bin/batuta version | grep -q "batuta $version," || fail "$root: another version"
	chroot "$root" /usr/bin/batuta config check --config /etc/batuta.yaml
	for file in etc/batuta.yaml usr/lib/systemd/system/batuta.service usr/lib/systemd/system/batuta-vip.service usr/lib/systemd/system/batuta-witness@.service \
		usr/share/man/man1/batuta-agent.1 usr/share/bash-completion/completions/batuta; do
		ls "$root/$file"* >/dev/null || fail "$root: there is no $file"
	done
done
for notices in "$deb/usr/share/doc" "$rpm/usr/share/licenses"; do
	grep -q '^==== github.com/hashicorp/memberlist@' "$notices/batuta/NOTICES" || fail "$notices: no licences of the linked modules"
done
grep -q '^ /etc/batuta.yaml ' "$deb"/var/lib/dpkg/status || fail "an upgrade of the .deb would replace the configuration"
for script in postinst prerm postrm; do [ -x "$deb/var/lib/dpkg/info/batuta.$script" ] || fail "the .deb has no $script"; done
grep -q "^batuta:" "$deb/etc/passwd" || fail "the .deb does not make the user that its units run as"
rpm --root "$rpm" -qc batuta | grep -qx /etc/batuta.yaml || fail "an upgrade of the .rpm would replace the configuration"
listed=$(rpm --root "$rpm" -ql batuta) # a pipe to grep -q would end rpm
for directory in doc licenses; do grep -qx "/usr/share/$directory/batuta" <<<"$listed" || fail "the .rpm would leave /usr/share/$directory/batuta"; done

# The secret, as the packaged configuration says: of the user that the units run as.
for root in "$deb" "$rpm"; do
	systemd-sysusers --root="$root" batuta.conf # a machine's package manager calls both
	systemd-tmpfiles --root="$root" --create batuta.conf
	uid=$(awk -F: '$1 == "batuta" {print $3}' "$root/etc/passwd")
	chroot "$root" /usr/bin/batuta secret new >"$root/etc/batuta.key"
	chmod 600 "$root/etc/batuta.key"
	check() { chroot --userspec="$uid" "$root" /usr/bin/batuta config check --config /etc/batuta.yaml --secret-file /etc/batuta.key; }
	check 2>"$work/check.log" && fail "$root: the service's user reads a key of root's"
	grep -q "chown $uid /etc/batuta.key" "$work/check.log" || fail "$root: it does not say how the key is made readable: $(cat "$work/check.log")"
	chown "$uid" "$root/etc/batuta.key"
	check || fail "$root: the service's user cannot read its key"
	# Before the first start, as that user: the members do not answer, and the data directory is no fault.
	BATUTA_ID=1 BATUTA_DATA_DIR=/var/lib/batuta chroot --userspec="$uid" "$root" \
		/usr/bin/batuta check --config /etc/batuta.yaml --secret-file /etc/batuta.key --timeout 1s >"$work/check.log" 2>&1 || true
	grep -q '^ok .*/var/lib/batuta  *a write is safe' "$work/check.log" || fail "$root: check before the first start: $(cat "$work/check.log")"
done

# Three members, as their units would start them, on ports of their own.
start() { # start ROOT N
	local command
	command=$(sed -n 's/^ExecStart=//p' "$1/usr/lib/systemd/system/batuta.service")
	mkdir -p "$1/var/lib/batuta$2"
	BATUTA_DATA_DIR=/var/lib/batuta$2 BATUTA_ID=$2 BATUTA_LISTEN=127.0.0.1:1745$2 BATUTA_HTTP=127.0.0.1:1746$2 \
		BATUTA_JOIN="127.0.0.1:17451 127.0.0.1:17452 127.0.0.1:17453" \
		chroot "$1" $command >"$work/$2.log" 2>&1 &
	pids+=($!)
	await 30 "member $2 does not start" chroot "$1" /usr/bin/batuta status --http 127.0.0.1:1746"$2"
}
leader_is() { [ "$(chroot "$deb" /usr/bin/batuta leader --http 127.0.0.1:1746"$2")" = "$1" ]; }

start "$deb" 1
start "$rpm" 2
await 30 "the first two do not say what they wait for" grep -q "until 3 members know each other" "$work/1.log"
leader_is 1 1 || leader_is 2 2 && fail "a leader although the configuration expects three"
start "$deb" 3
for i in 1 2 3; do await 30 "member $i does not follow 3" leader_is 3 $i; done
kill -9 "${pids[2]}"
for i in 1 2; do await 30 "member $i does not follow 2" leader_is 2 $i; done

# Two machines and a witness, as its unit has it: one of the two is killed, and the other leads.
quorum() { # quorum ROOT N COMMAND…: a member of the quorum
	local root=$1 n=$2
	shift 2
	mkdir -p "$root/var/lib/batuta-q$n"
	env -u BATUTA_ID BATUTA_DATA_DIR=/var/lib/batuta-q"$n" chroot "$root" "$@" >"$work/q$n.log" 2>&1 &
	pids+=($!)
	last=$!
}
list="--member 1=127.0.0.1:17471 --member 2=127.0.0.1:17472 --member 3=127.0.0.1:17473"
mkdir -p "$rpm/etc/batuta-witness" "$rpm/run/batuta-witness/payments"
printf '%s\n' "id: 3" "listen: 127.0.0.1:17473" "cluster: payments" "member: [1=127.0.0.1:17471, 2=127.0.0.1:17472, 3=127.0.0.1:17473]" \
	>"$rpm/etc/batuta-witness/payments.yaml"
command=$(sed -n 's/^ExecStart=//p' "$rpm/usr/lib/systemd/system/batuta-witness@.service")
api=$(sed -n 's/^Environment=BATUTA_HTTP=//p' "$rpm/usr/lib/systemd/system/batuta-witness@.service")
api=${api//%t//run} api=${api//%i/payments}
BATUTA_HTTP=$api quorum "$rpm" 3 ${command//%i/payments}
for i in 1 2; do
	quorum "$deb" $i /usr/bin/batuta agent --algorithm quorum --takeover lease --cluster payments --events off --id $i --listen 127.0.0.1:1747$i --http 127.0.0.1:1748$i $list
done
await 30 "the quorum does not follow 2" sh -c "[ \"\$(chroot '$rpm' /usr/bin/batuta leader --http $api)\" = 2 ]"
kill -9 "$last"
await 30 "1 does not lead with the witness" sh -c "[ \"\$(chroot '$rpm' /usr/bin/batuta leader --http $api)\" = 1 ]"
echo "both packages install, start and elect, with a witness too"
