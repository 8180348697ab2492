/**
 * podhost on a host with cgroup v2 alone: the Go tests that drive it over its socket, run in a virtual machine with Debian's own
 * kernel. Software emulation is enough; it takes about two minutes, most of them for making the guest.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ROOT } from '../support/world.ts'

const PACKAGES = ['crun', 'e2fsprogs', 'kmod', 'linux-image-cloud-amd64', 'procps', 'uidmap']
const TESTS = 'TestASandboxLives|TestPoddGets|TestPodhostKilled|TestADeadline|TestProbe|TestManyAtOnce'
const QEMU = 'qemu-system-x86_64'

/** A sandbox's root is pivoted into place, which the kernel does not do from its first file system; so the guest moves house. */
const INIT = `#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p /newroot && mount -t tmpfs -o size=1500m root /newroot
cp -a /bin /sbin /lib /lib64 /usr /etc /root /t /guest /newroot/
cd /newroot && mkdir -p proc sys dev tmp disk mnt run var opt
exec switch_root /newroot /guest
`
const GUEST = `#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root AGENTPOD_TEST_PROGRAMS=/t
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for module in overlay ext4 loop; do modprobe $module; done
mount -t tmpfs -o size=3g disk /disk
truncate -s 4G /disk/image; mkfs.ext4 -q /disk/image; mount -o loop /disk/image /tmp; chmod 1777 /tmp
echo "CONTROLLERS $(cat /sys/fs/cgroup/cgroup.controllers)"
/t/cgroup.test -test.v; echo "CGROUP $?"
/t/podhost.test -test.v -test.run '${TESTS}'; echo "PODHOST $?"
echo o > /proc/sysrq-trigger; sleep 10
`

const scratch = mkdtempSync(join(tmpdir(), 'agentpod-v2-'))
after(() => rmSync(scratch, { recursive: true, force: true }))

function missing(): string | false {
  if (process.getuid?.() !== 0) return 'only root can make the guest'
  if (process.arch !== 'x64') return 'the guest is made for x86-64'
  for (const program of [QEMU, 'mmdebstrap', 'cpio', 'go']) {
    if (spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0) return `${program} is not installed`
  }
  return false
}

test('limits, life and restart of sandboxes on cgroup v2', { skip: missing() }, () => {
  const root = join(scratch, 'root')
  const sources = [
    '/etc/apt/sources.list',
    ...readdirSync('/etc/apt/sources.list.d').map((name) => join('/etc/apt/sources.list.d', name)),
  ]
  execFileSync(
    'mmdebstrap',
    [
      '--mode=root',
      '--variant=minbase',
      `--include=${PACKAGES.join(',')}`,
      '--format=directory',
      'bookworm',
      root,
      ...sources.filter((file) => /\.(list|sources)$/.test(file) && existsSync(file)),
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  const programs = join(root, 't')
  mkdirSync(programs)
  cpSync(join(ROOT, 'dist', 'bin'), programs, { recursive: true })
  for (const [name, folder] of [
    ['podhost', './cmd/podhost'],
    ['cgroup', './internal/cgroup'],
  ] as const) {
    execFileSync('go', ['test', '-c', '-o', join(programs, `${name}.test`), folder], {
      cwd: join(ROOT, 'native'),
      env: { ...process.env, CGO_ENABLED: '0' },
    })
  }
  for (const [name, text] of [
    ['init', INIT],
    ['guest', GUEST],
  ] as const) {
    writeFileSync(join(root, name), text)
    chmodSync(join(root, name), 0o755)
  }
  const archive = join(scratch, 'root.cpio')
  execFileSync('sh', ['-c', "find . -xdev ! -path './boot/*' ! -path './var/*' | cpio -o -H newc --quiet"], {
    cwd: root,
    stdio: ['ignore', openSync(archive, 'w'), 'pipe'],
  })
  const kernel = readdirSync(join(root, 'boot')).find((name) => name.startsWith('vmlinuz-')) ?? ''
  const { stdout } = spawnSync(
    QEMU,
    [
      ...['-M', 'q35', '-accel', 'tcg,thread=multi', '-smp', '2', '-m', '4096', '-nographic', '-no-reboot'],
      ...['-kernel', join(root, 'boot', kernel), '-initrd', archive],
      ...['-append', 'console=ttyS0 rdinit=/init panic=-1 quiet'],
    ],
    { encoding: 'utf8', timeout: 600_000, stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 64 << 20 },
  )
  assert.match(stdout, /CONTROLLERS .*memory.*pids/, stdout)
  assert.match(stdout, /CGROUP 0/, stdout)
  assert.match(stdout, /PODHOST 0/, stdout)
  assert.doesNotMatch(stdout, /--- SKIP/, 'nothing is skipped there')
})
