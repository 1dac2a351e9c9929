# Twelve questions that any tool can ask a GPU node, each answered by "ok NAME VALUE" or "FAIL NAME VALUE".
root=$NODEGATE_PROBE_ROOT
failed=0
is() { # NAME EXPECTED VALUE
    word=ok
    [ "$2" = "$3" ] || { word=FAIL; failed=1; }
    echo "$word $1 $3"
}
gpus=$(nvidia-smi --query-gpu=driver_version,persistence_mode,ecc.mode.current,ecc.errors.uncorrected.aggregate.total,pcie.link.width.current,temperature.gpu --format=csv,noheader,nounits)
column() { echo "$gpus" | cut -d, -f"$1" | tr -d " " | sort -u | xargs; }
is gpus 8 "$(echo "$gpus" | grep -c ,)"
is driver 550.163.01 "$(column 1)"
is persistence Enabled "$(column 2)"
is ecc Enabled "$(column 3)"
is ecc_uncorrected 0 "$(column 4)"
is pcie_width 16 "$(column 5)"
is too_hot 0 "$(echo "$gpus" | cut -d, -f6 | awk '$1 > 80' | wc -l)"
is remapped_rows "0,0" "$(nvidia-smi --query-remapped-rows=remapped_rows.pending,remapped_rows.failure --format=csv,noheader | tr -d " " | sort -u | xargs)"
is ports_active 8 "$(cat "$root"/sys/class/infiniband/*/ports/1/state | grep -c ACTIVE)"
is port_rate "400 Gb/sec (4X NDR)" "$(sort -u "$root"/sys/class/infiniband/*/ports/1/rate)"
is fabricmanager active "$(systemctl is-active nvidia-fabricmanager)"
is xid 0 "$(grep -c "NVRM: Xid" "$root/var/log/kern.log")"
exit $failed
