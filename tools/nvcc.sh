#!/bin/sh
# tools/nvcc.sh REPORT NVCC...: run nvcc. What ptxas says of each kernel goes to REPORT, a line for each:
#
#     sm_90  gelu_forward<float>  32 registers, 0 bytes stack, 0 bytes shared, 0 bytes spilled
#
# All else that it says goes to stderr.
set -u
report=$1
shift
said=$("$@" 2>&1)
status=$?
printf '%s\n' "$said" | awk -v report="$report" '
/^ptxas info +: Compiling entry function/ {
    split($0, quoted, "\047")
    name = quoted[2]; arch = quoted[4]
    next
}
/bytes stack frame/ { stack = $1; spilled = $5 + $9; next }
/^ptxas info +: Used [0-9]+ registers/ {
    shared = 0
    if (match($0, /[0-9]+ bytes smem/)) shared = substr($0, RSTART) + 0
    printf "%s  %s  %d registers, %d bytes stack, %d bytes shared, %d bytes spilled\n",
        arch, name, $5, stack, shared, spilled | "c++filt | sort >" report
    next
}
/^ptxas info/ || /Function properties for/ || /^$/ { next }
{ print > "/dev/stderr" }'
[ "$status" = 0 ] && [ ! -e "$report" ] && : >"$report"
exit "$status"
