/** Virtual machines in tests: why they cannot run here, and a provider with a small root. */
import { accessSync, constants, existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { Podhost } from '../../src/providers/local/podhost.ts'
import { qemu } from '../../src/providers/qemu/provider.ts'
import { filesOf, type MachineFiles, machineFiles, type OtherVmm } from '../../src/providers/qemu/vm-files.ts'
import { packRoot } from './docker-root.ts'
import { onPodhost, type TestProvider } from './provider-contract.ts'
import { digestOf, type TarEntry, tarOf } from './tar-bytes.ts'

export const MACHINE_FILES = machineFiles(process.env)

/** Undefined if they can run. */
export const NO_QEMU: string | undefined =
  process.getuid?.() !== 0
    ? 'needs root'
    : existsSync(MACHINE_FILES.qemu) && existsSync(join(MACHINE_FILES.kernel, 'release'))
      ? undefined
      : 'needs QEMU and a kernel: `agentpod provider setup qemu`'

/** Why machines cannot run here with another program; undefined if they can. */
export function whyNot(vmm: OtherVmm): string | undefined {
  if (process.getuid?.() !== 0) return 'needs root'
  const missing = Object.values(filesOf(vmm, process.env)).filter((file) => file && !existsSync(file))
  if (missing.length > 0) return `needs ${missing.join(' and ')}`
  try {
    accessSync('/dev/kvm', constants.R_OK | constants.W_OK)
  } catch {
    return 'needs KVM'
  }
  return existsSync(join(MACHINE_FILES.kernel, 'vmlinux'))
    ? undefined
    : `needs a kernel: \`AGENTPOD_VMM=${vmm} agentpod provider setup qemu\``
}

/** `openQemu` with another program. */
export function openOther(vmm: OtherVmm): Promise<QemuStage> {
  return openQemu({ vmm, ...filesOf(vmm, process.env) })
}

/** The layer above the programs: the user that commands run as. */
export const USER_FILES: readonly TarEntry[] = [
  { name: 'etc/', type: 'directory' },
  {
    name: 'etc/passwd',
    content: Buffer.from('root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\n'),
  },
  { name: 'etc/group', content: Buffer.from('root:x:0:\nuser:x:1000:\n') },
  { name: 'home/', type: 'directory' },
  { name: 'home/user/', type: 'directory', uid: 1000 },
]

const PROGRAMS = join(import.meta.dirname, '../../dist/bin')
const CALL = { timeoutMs: 60_000 }

/** The limits of a machine that starts fast. */
export const SMALL_MACHINE = { memoryMib: 256, cpus: 1 }

export interface QemuStage extends TestProvider {
  readonly home: string
  readonly podhost: Podhost
  readonly files: MachineFiles
}

/** The provider on a podhost with a state directory of its own, and a root of this machine's programs. */
export async function openQemu(over: Partial<MachineFiles> = {}): Promise<QemuStage> {
  const home = await mkdtemp(join(tmpdir(), 'agentpod-vm-'))
  const files = { ...MACHINE_FILES, ...over }
  const podhost = new Podhost({
    home,
    podhost: join(PROGRAMS, 'podhost'),
    podd: join(PROGRAMS, 'podd'),
    vminit: join(PROGRAMS, 'vminit'),
    ...files,
  })
  const provider = qemu(podhost, join(home, 'tmp'))
  const opened = onPodhost(provider, {
    podhost,
    exchange: join(home, 'tmp'),
    close: () => rm(home, { recursive: true }),
  })
  // podhost makes the directory for the file.
  await podhost.call('hello', {}, CALL)
  const file = join(home, 'tmp', 'root.tar')
  packRoot(file)
  const programs = readFileSync(file)
  await rm(file)
  const { layers } = provider
  if (!layers) throw new Error('the provider takes no layers')
  const digests: string[] = []
  for (const content of [programs, tarOf(USER_FILES)]) {
    const digest = digestOf(content)
    await layers.import(digest, Readable.from([content]), CALL)
    digests.push(digest)
  }
  return { ...opened, root: layers.root(digests), home, podhost, files }
}
