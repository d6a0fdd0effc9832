#!/usr/bin/env bash
# Installs what the demo and the tests need and this machine lacks: Debian packages, nothing else, and says so first.
#
#   scripts/setup.sh demo    a Python with PyTorch, for the example training
#   scripts/setup.sh test    the above, and the tools that the tests compare ptlaunch with
#   scripts/setup.sh unpack FOLDER  programs of packages that are services: unpacked there, not installed
#   scripts/setup.sh python  prints the Python interpreter that has PyTorch; fails when there is none
set -euo pipefail

# The reference init programs and a container runtime; job control and process tools; a slow FUSE file system; loop devices;
# the peers that the benchmarks measure.
test_packages=(
  tini dumb-init runc iproute2 procps psmisc util-linux strace gcc libc6-dev
  python3-setproctitle python3-lmdb python3-fusepy libfuse2 bindfs fuse3 e2fsprogs
  sysstat iotop-c
)
# Installing these would start and enable a service on this machine.
service_packages=(prometheus prometheus-process-exporter)

has_torch() { "$1" -c 'import torch' >/dev/null 2>&1; }

# find_python prints the first interpreter that can import torch.
find_python() {
  local candidate
  for candidate in "${PTLAUNCH_PYTHON:-}" python3 /usr/bin/python3; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null || continue
    if has_torch "$candidate"; then command -v "$candidate"; return 0; fi
  done
  return 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
    echo "setup: root is needed for: $*" >&2; return 1
  fi
}

missing() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null)" = 'install ok installed' ] || echo "$package"
  done
}

install_packages() {
  local wanted
  wanted=$(missing "$@")
  [ -n "$wanted" ] || return 0
  echo "setup: installing from Debian:" $wanted >&2
  as_root apt-get update -qq
  # shellcheck disable=SC2086 # one word per package
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Options::=--force-unsafe-io $wanted >&2
}

need_apt() {
  command -v apt-get >/dev/null && return 0
  echo "setup: $1" >&2
  return 1
}

need_torch() {
  find_python >/dev/null && return 0
  need_apt "no Python here can import torch, and there is no apt-get to install it with. Install PyTorch (pip install torch) and name its interpreter in PTLAUNCH_PYTHON."
  echo "setup: no Python here can import torch; Debian's python3-torch is the smallest one (150 MB to download, no GPU support)" >&2
  install_packages python3-torch python3-numpy
  find_python >/dev/null || { echo "setup: python3-torch is installed, but no interpreter can import it" >&2; return 1; }
}

# unpack_services unpacks programs into a folder: usr/bin/prometheus, usr/bin/promtool, usr/bin/prometheus-process-exporter.
unpack_services() {
  mkdir -p "$1" && cd "$1"
  apt-get download -qq "${service_packages[@]}" 2>/dev/null || { as_root apt-get update -qq; apt-get download -qq "${service_packages[@]}"; }
  local deb
  for deb in ./*.deb; do dpkg -x "$deb" .; done
  rm -f ./*.deb
}

case "${1:-}" in
python) find_python || { echo "setup: no Python here can import torch; run: scripts/setup.sh demo" >&2; exit 1; } ;;
demo) need_torch ;;
test)
  need_apt "the tests need Debian's packages: ${test_packages[*]} python3-torch"
  # Debian's own PyTorch, whatever else there is: the tests know its process trees.
  install_packages python3-torch python3-numpy "${test_packages[@]}"
  ;;
unpack)
  need_apt "the end-to-end tests need Debian's packages: ${service_packages[*]}"
  unpack_services "${2:?usage: scripts/setup.sh unpack FOLDER}"
  ;;
*) sed -n '2,7p' "$0" >&2; exit 2 ;;
esac
