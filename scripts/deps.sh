#!/bin/sh
# Installs the system programs that the tests need and that are missing here: as root, or through sudo.
# Fails when one cannot be installed. Works with apt-get, dnf, apk and brew.
set -eu

say() { echo "deps: $*" >&2; }

fail() {
    say "$*"
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Another server to test against is only looked for, never installed.
redis="redis-server redis-server redis redis redis"
if [ -n "${TIDEGATE_REDIS_SERVER:-}" ]; then
    redis="$TIDEGATE_REDIS_SERVER - - - -"
fi

# The browser that the page and CORS are tested in has several names. One that is called otherwise is not looked for.
chromium="chromium chromium chromium chromium -"
if have chromium-browser || have google-chrome || have google-chrome-stable; then
    chromium=
fi

# One line each: the program, then its package for apt-get, dnf, apk and brew (- where there is none).
programs="
$redis
$chromium
etcd etcd-server etcd - etcd
promtool prometheus - prometheus prometheus
"

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        fail "this needs root, and there is no sudo here; run as root: $*"
    fi
}

# install MANAGER PACKAGE... asks nothing and starts no service.
install() {
    manager=$1
    shift
    case $manager in
    apt-get)
        as_root apt-get update -qq
        # Debian starts a service when its package is installed, except in runlevel 1.
        as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
            apt-get install -y -qq --no-install-recommends "$@"
        ;;
    dnf) as_root dnf install -y -q "$@" ;;
    apk) as_root apk add --quiet "$@" ;;
    brew) brew install --quiet "$@" ;;
    esac
}

manager=
for m in apt-get dnf apk brew; do
    if have "$m"; then
        manager=$m
        break
    fi
done

missing= packages=
while read -r program apt dnf apk brew; do
    [ -n "$program" ] || continue
    have "$program" && continue
    missing="$missing $program"
    case $manager in
    apt-get) package=$apt ;;
    dnf) package=$dnf ;;
    apk) package=$apk ;;
    brew) package=$brew ;;
    *) package=- ;;
    esac
    [ "$package" != - ] || fail "$program is missing, and this script cannot install it here: install it by hand"
    packages="$packages $package"
done <<EOF
$programs
EOF

[ -n "$missing" ] || exit 0

say "missing:$missing; installing$packages with $manager"
# shellcheck disable=SC2086 # a list of words
install "$manager" $packages </dev/null >&2 || fail "$manager could not install$packages"
for program in $missing; do
    have "$program" || fail "$manager installed$packages, yet $program is not on the PATH"
done
