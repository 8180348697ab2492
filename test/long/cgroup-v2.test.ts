/**
 * podhost on a host with only cgroup v2: the Go tests that drive it over its socket, in a virtual machine
 * with Debian's kernel, as root, as an ordinary user to whom root delegated a cgroup, and as one who is
 * logged in to systemd. Software emulation is enough; it takes about four minutes, half of them to create the
 * guest.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ROOT } from '../support/world.ts'

const PACKAGES = [
  ...['dbus-user-session', 'e2fsprogs', 'kmod', 'libpam-systemd', 'linux-image-cloud-amd64'],
  ...['procps', 'systemd-sysv', 'uidmap'],
]
const QEMU = 'qemu-system-x86_64'

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

test('ISO-2 limits, lifetimes and restarts of sandboxes work on cgroup v2, as root and as an ordinary user', {
  skip: missing(),
}, () => {
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
  cpSync(join(import.meta.dirname, 'cgroup-v2'), root, { recursive: true })
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
  assert.match(stdout, /GIVEN 0/, stdout)
  assert.match(stdout, /SYSTEMD 0/, stdout)
  assert.doesNotMatch(stdout, /--- SKIP/, 'nothing is skipped there')
})
