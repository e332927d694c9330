#!/usr/bin/env bash
# docs/ARCHITECTURE.md names every module of src/ and no other, its walks name functions that their files have, and its table
# of libraries has the files that include their headers. TAP on standard output.
set -uo pipefail
cd "$1" || exit 1
echo 1..3
named=$(grep -oE '`src/[a-z0-9/_]+`' docs/ARCHITECTURE.md | tr -d '`' | sort -u)
there=$(git ls-files -co --exclude-standard 'src/*.c' 'src/*.h' | while read -r file; do
    [ -e "$file" ] && dirname "$file"
done | sort -u)
if difference=$(diff <(printf '%s\n' "$there") <(printf '%s\n' "$named")); then
    echo "ok 1 - the map names every module"
else
    echo "not ok 1 - the map names every module"
    printf '%s\n' "$difference" | sed 's/^/# /'
fi

# In the walks a file is followed by its functions.
wrong=$(sed -n '/^## Four walks/,/^## Decisions/p' docs/ARCHITECTURE.md | grep -oE '`[^`]+`' | tr -d '`' | while read -r word; do
    case $word in
    *.sh) ;;
    *.c | *.py)
        file=src/$word
        [ -e "$file" ] || echo "no file $file"
        ;;
    *[!a-z0-9_]*) ;;
    *) grep -qE "^[^ #/].*[ *]$word\(|def $word\(" "$file" || echo "$file has no function $word" ;;
    esac
done)
if [ -z "$wrong" ]; then
    echo "ok 2 - the walks name functions of their files"
else
    echo "not ok 2 - the walks name functions of their files"
    printf '%s\n' "$wrong" | sed 's/^/# /'
fi

# Headers that are not of the C library, the Linux kernel or the compiler; a header in a directory counts by the directory.
plain='assert|cpuid|dirent|dlfcn|errno|fcntl|ftw|glob|grp|ifaddrs|langinfo|libgen|limits|locale|malloc|math|mntent|netdb|poll|pthread'
plain+='|pwd|sched|semaphore|setjmp|signal|spawn|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|string|strings|termios'
plain+='|time|ucontext|unistd|wchar|immintrin|arm_neon'
included=$(git grep -E '^ *# *include +(<[^>]+>|"engine\.h")' -- 'src/*.c' 'src/*.h' |
    sed -E 's,^src/([^:]+):.*[<"]([^>"]+)[>"].*,\2 \1,' |
    grep -vE "^(($plain)\.h|(sys|linux|net|netinet|arpa|sanitizer)/[^ ]*) " | sed -E 's,^([^ /]+/)[^ ]+,\1,' | sort -u)
# The rows whose second column has headers: every header with every file.
listed=$(sed -n '/^| library | header/,/^$/p' docs/ARCHITECTURE.md | grep '^| .*`' | while IFS='|' read -r _ _ headers files _; do
    for header in $headers; do
        for file in $files; do
            printf '%s %s\n' "$header" "$file"
        done
    done
done | tr -d '`,' | sort -u)
if difference=$(diff <(printf '%s\n' "$included") <(printf '%s\n' "$listed")); then
    echo "ok 3 - the table of libraries has the files that include them"
else
    echo "not ok 3 - the table of libraries has the files that include them"
    printf '%s\n' "$difference" | sed 's/^/# /'
fi
