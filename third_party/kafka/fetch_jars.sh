#!/usr/bin/env bash
# Puts the jars named in LOCK into DEST: from CACHE when it holds them, otherwise through Maven into
# CACHE first. Every jar's checksum is compared in either case.
#   fetch_jars.sh POM LOCK CACHE DEST
set -u -o pipefail

pom=$1 lock=$2 cache=$3 dest=$4

work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT

fail() {
  echo "kafka broker for tests: $*" >&2
  exit 1
}

verify() {  # FOLDER: true when it holds exactly the locked jars
  (cd "$1" && sha256sum --quiet --strict -c "$lock") >&2 || return 1
  local extra
  extra=$(comm -13 <(awk '{print $2}' "$lock" | sort) <(cd "$1" && ls -- *.jar | sort))
  [ -z "$extra" ] || { echo "not in the lock file: $extra" >&2; return 1; }
}

fetch() {
  command -v mvn >/dev/null || fail "mvn is not on PATH (Debian: maven); it fetches the jars once"
  work=$(mktemp -d "$cache.part.XXXXXX") || fail "cannot write beside $cache"
  cp "$pom" "$work/pom.xml" && mkdir "$work/jars" || fail "cannot write into $work"
  mvn -q -B -f "$work/pom.xml" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$work/jars" >"$work/log" 2>&1 ||
    fail "mvn could not fetch what $pom names; its last lines:
$(tail -n 20 "$work/log")"
  verify "$work/jars" || fail "what mvn fetched is not what $lock names (lines above)"
  # Whoever comes second finds the first one's folder in place, with the same content.
  mv -T "$work/jars" "$cache" 2>/dev/null || [ -d "$cache" ] || fail "cannot make $cache"
}

mkdir -p "$(dirname "$cache")" || fail "cannot make $(dirname "$cache")"
if [ -d "$cache" ] && ! verify "$cache"; then
  echo "kafka broker for tests: $cache is damaged and fetched again" >&2
  rm -rf "$cache" || fail "cannot remove $cache"
fi
[ -d "$cache" ] || fetch
mkdir -p "$dest" || fail "cannot make $dest"
# Links keep it cheap; another file system gets copies.
cp -l "$cache"/*.jar "$dest"/ 2>/dev/null || cp "$cache"/*.jar "$dest"/ ||
  fail "cannot copy from $cache to $dest"
