#pragma once

#include <optional>
#include <string>
#include <string_view>

/// What a build says to a shell inside. Names and paths of clients are arguments, never part of the text.
namespace berth::e2b::words {

/// Puts what was unpacked at $1 to where COPY says: the contents of a directory into $2, a file to $2 or into
/// it.
inline constexpr std::string_view kCopy = R"sh(set -eu
from=$1 dest=$2 owner=$3 mode=$4 pattern=$5
case $owner in '' | *:* | [0-9]*) ;; *) owner=$owner: ;; esac # and the group that is its own
trap 'cd /; rm -rf "$from"' EXIT
cd "$from"
[ -z "$owner" ] || chown -hR "$owner" .
[ -z "$mode" ] || find . -type f -exec chmod "$mode" {} +
IFS=
into() { [ -d "$1" ] || { mkdir -p "$1"; [ -z "$owner" ] || chown "$owner" "$1"; }; }
put() {
    if [ -d "$1" ] && [ ! -L "$1" ]; then
        into "$dest"
        for one in "$1"/* "$1"/.[!.]* "$1"/..?*; do
            if [ -e "$one" ] || [ -L "$one" ]; then cp -a "$one" "$dest/"; fi
        done
    elif [ "$many" ] || [ "${dest%/}" != "$dest" ] || [ -d "$dest" ]; then
        into "$dest"
        cp -a "$1" "$dest/"
    else
        into "$(dirname "$dest")"
        cp -a "$1" "$dest"
    fi
}
many=
case $pattern in
*'**'*) put "./${pattern%%'**'*}." ;;
*[*?[]*) many=1; for one in ./$pattern; do put "$one"; done ;;
*) put "./$pattern" ;;
esac
)sh";

/// With nothing but the shell itself: an image may have little else.
inline constexpr std::string_view kAddAccount = R"sh(set -eu
have= taken=
while IFS=: read -r name x id rest; do
    [ "$name" != user ] || have=1
    taken="$taken $id "
done </etc/passwd
if [ -z "$have" ]; then
    id=1000
    while case $taken in *" $id "*) true ;; *) false ;; esac do id=$((id + 1)); done
    shell=/bin/sh; [ ! -x /bin/bash ] || shell=/bin/bash
    echo "user:x:$id:$id:user:/home/user:$shell" >>/etc/passwd
    echo "user:x:$id:" >>/etc/group
fi
[ -d /home/user ] || { mkdir -p /home/user && chown user: /home/user; }
)sh";

inline constexpr std::string_view kMakeDirectory = R"([ -d "$1" ] || { mkdir -p "$1" && chown "$2" "$1"; })";

/// "a/b" of "./a//c/../b"; nothing for what is absolute or leads out.
[[nodiscard]] std::optional<std::string> inside(std::string_view path);

/// Inside double quotes of a shell it names variables and nothing else.
[[nodiscard]] std::string quoted_value(std::string_view value);

} // namespace berth::e2b::words
