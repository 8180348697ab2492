package rootfs

// etcCopied are the parts of /etc that programs need and that contain nothing personal. Only files that every
// user of the host may read are copied.
//
// SECURITY: LK-05. An allow-list: /etc/ssl/private, /etc/gitconfig, /etc/apt (repository passwords) and the
// like stay out.
var etcCopied = []string{
	"alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts", "inputrc", "java-*",
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "magic", "magic.mime", "maven", "mime.types", "os-release", "perl",
	"pki/ca-trust/extracted", "pki/tls/cert.pem", "pki/tls/certs", "protocols", "python3*", "services", "ssl/certs", "ssl/openssl.cnf",
	"terminfo",
}

// etcWritten are the files that podhost writes itself.
var etcWritten = map[string]string{
	"passwd": `root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
sys:x:3:3:sys:/dev:/usr/sbin/nologin
man:x:6:12:man:/var/cache/man:/usr/sbin/nologin
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
_apt:x:100:65534::/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
user:x:1000:1000:user:/home/user:/bin/bash
`,
	"group": `root:x:0:
daemon:x:1:
bin:x:2:
sys:x:3:
adm:x:4:
tty:x:5:
disk:x:6:
mail:x:8:
man:x:12:
kmem:x:15:
sudo:x:27:
www-data:x:33:
shadow:x:42:
utmp:x:43:
staff:x:50:
nogroup:x:65534:
user:x:1000:
`,
	"shadow":        "root:!:19700:0:99999:7:::\nuser:!:19700:0:99999:7:::\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n",
	resolvConf:      resolver,
	"profile":       "umask 022\nif [ -n \"$BASH_VERSION\" ] && [ -r /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi\n",
	"bash.bashrc":   "[ -z \"$PS1\" ] && return\nPS1='\\u@\\h:\\w\\$ '\nshopt -s checkwinsize\n",
	"shells":        "/bin/sh\n/bin/bash\n",
	"login.defs":    "UID_MIN 1000\nUID_MAX 60000\nGID_MIN 1000\nGID_MAX 60000\nUMASK 022\nENCRYPT_METHOD SHA512\n",
	"timezone":      "Etc/UTC\n",
}

// resolvConf names podd as the resolver, which answers immediately or not at all.
const (
	resolvConf = "resolv.conf"
	resolver   = "nameserver 127.0.0.53\noptions timeout:2 attempts:1\n"
)

const hostsTemplate = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 "
