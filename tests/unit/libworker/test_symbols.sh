# test_symbols.sh NM SHARED ARCHIVE: every symbol that leaves either library starts with wk_, and
# both offer the same.
set -e
nm=$1
shared=$("$nm" -D --defined-only "$2" | awk '{print $3}' | sort)
archive=$("$nm" --defined-only --extern-only "$3" | awk 'NF == 3 {print $3}' | sort)
foreign=$(printf '%s\n%s\n' "$shared" "$archive" | grep -v -e '^wk_' -e '^__asan' -e '^__odr_asan' -e '^$' || true)
if [ -n "$foreign" ]; then
    echo "symbols that are not wk_: $foreign"
    exit 1
fi
if [ -z "$shared" ] || [ "$shared" != "$archive" ]; then
    echo "the two libraries offer different symbols"
    exit 1
fi
