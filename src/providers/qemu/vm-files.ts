/** Where the parts of virtual machines are. */
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { AgentPodError } from '../../core/error.ts'

/** Programs besides QEMU, by their name in `AGENTPOD_VMM`, and the variables of their files. */
const OTHERS = {
  'cloud-hypervisor': { cloudHypervisor: 'AGENTPOD_CLOUD_HYPERVISOR' },
  firecracker: { firecracker: 'AGENTPOD_FIRECRACKER', jailer: 'AGENTPOD_JAILER' },
} as const

/** What a program's file is called on the PATH. */
const FILES = { cloudHypervisor: 'cloud-hypervisor', firecracker: 'firecracker', jailer: 'jailer' } as const

export type OtherVmm = keyof typeof OTHERS
export const OTHER_VMMS = Object.keys(OTHERS) as readonly OtherVmm[]

export interface MachineFiles {
  readonly qemu: string
  /** The directory with the kernel and its modules. */
  readonly kernel: string
  /** The program that runs machines in place of QEMU, and its files. */
  readonly vmm?: OtherVmm | undefined
  readonly cloudHypervisor?: string | undefined
  readonly firecracker?: string | undefined
  readonly jailer?: string | undefined
}

type Environment = Readonly<Record<string, string | undefined>>

/**
 * `AGENTPOD_QEMU` and `AGENTPOD_VM_KERNEL`, or where `agentpod provider setup qemu` puts them: the kernel is
 * outside of the state directory, because all state directories of a user can use one. `AGENTPOD_VMM` names
 * another program, which is on the PATH or where its own variable says.
 */
export function machineFiles(env: Environment): MachineFiles {
  const cache = absolute(env, 'XDG_CACHE_HOME') ?? join(homedir(), '.cache')
  const vmm = otherVmm(env['AGENTPOD_VMM'])
  const files = {
    qemu: absolute(env, 'AGENTPOD_QEMU') ?? '/usr/bin/qemu-system-x86_64',
    kernel: absolute(env, 'AGENTPOD_VM_KERNEL') ?? join(cache, 'agentpod', 'vm-kernel'),
  }
  return vmm === undefined ? files : { ...files, vmm, ...filesOf(vmm, env) }
}

/** The files of a program, also where they are missing. */
export function filesOf(vmm: OtherVmm, env: Environment): Partial<MachineFiles> {
  const found = Object.entries(OTHERS[vmm]).map(([part, variable]) => {
    const file = FILES[part as keyof typeof FILES]
    return [part, absolute(env, variable) ?? onPath(file, env['PATH']) ?? join('/usr/bin', file)]
  })
  return Object.fromEntries(found) as Partial<MachineFiles>
}

function absolute(env: Environment, name: string): string | undefined {
  const path = env[name]
  return path !== undefined && isAbsolute(path) ? path : undefined
}

function onPath(file: string, path = ''): string | undefined {
  return path
    .split(':')
    .filter(isAbsolute)
    .map((dir) => join(dir, file))
    .find((candidate) => existsSync(candidate))
}

function otherVmm(name: string | undefined): OtherVmm | undefined {
  if (name === undefined || name === '' || name === 'qemu') return undefined
  const found = OTHER_VMMS.find((vmm) => vmm === name)
  if (found !== undefined) return found
  throw new AgentPodError({
    code: 'invalid_argument',
    reason: 'qemu.vmm',
    message: `AGENTPOD_VMM is ${JSON.stringify(name)}, which is not a program that runs virtual machines`,
    hint: `use one of: qemu, ${OTHER_VMMS.join(', ')}`,
  })
}
