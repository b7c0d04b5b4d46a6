# A stand-in of the lab: it has the vendor's name, flags, exit codes, files and records, and none of
# its software. /var/lib/lab-ascend/installer names a fault; /var/lib/lab-ascend/calls lists calls.
LAB=/var/lib/lab-ascend
ROOT=/usr/local/Ascend
INFO=/etc/ascend_install.info
mkdir -p "$LAB" /var/log/ascend_seclog
FAULT=$(cat "$LAB/installer" 2>/dev/null)

say() {
    echo "[$(date '+%Y-%m-%d %H:%M:%S')] [INFO]: $*" | tee -a "$LOG"
}

fail() {
    echo "[$(date '+%Y-%m-%d %H:%M:%S')] [ERROR]: $*" | tee -a "$LOG"
    exit 1
}

payload() {
    sed '1,/^__PAYLOAD__$/d' "$0"
}

# What every self-extracting archive can do without running its script.
archive_flags() {
    local word
    for word in "$@"; do
        case $word in
        --check) [ "$(payload | md5sum | cut -d' ' -f1)" = "$MD5" ] && echo "MD5 checksums are OK." && exit 0
            echo "Error in MD5 checksums" >&2
            exit 2 ;;
        --list) payload | tar tz; exit 0 ;;
        --info) echo "Identification: $NAME"; exit 0 ;;
        --version) echo "$VERSION"; exit 0 ;;
        --noexec) NOEXEC=1 ;;
        --extract=*) mkdir -p "${word#*=}" && payload | tar xz -C "${word#*=}" ;;
        esac
    done
    [ -z "$NOEXEC" ] || exit 0
}

common_faults() {
    case $FAULT in
    exit1) fail "ERR_NO:0x0004;ERR_DES: parameter error" ;;
    killed) kill -KILL $$ ;;
    diskfull) echo "tar: ./lib64: Cannot write: No space left on device"; exit 1 ;;
    running) fail "ERR_NO:0x0094;ERR_DES: another installation is running" ;;
    hang) exec sleep 3600 ;;
    silent) say "$PART package installed successfully!"; exit 0 ;;
    esac
}

# set_key FILE KEY VALUE; an empty value removes the key.
set_key() {
    touch "$1"
    sed -i "/^$2=/d" "$1"
    [ -z "$3" ] || echo "$2=$3" >>"$1"
    [ -s "$1" ] || rm -f "$1"
}
