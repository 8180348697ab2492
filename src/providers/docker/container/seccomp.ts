/**
 * The seccomp profile that Docker applies to podd and everything else in the container. podd adds its own
 * filter for programs, which is at least as strict for every call; calls that it filters by arguments are
 * allowed here.
 */
import { ALLOWED, ALLOWED_AMD64, DENIED, DENIED_AMD64 } from './system-calls.ts'

const EPERM = 1
const ENOSYS = 38

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. */
const NAMESPACE_FLAGS = 0x7e02_0000
const [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK] = [1, 2, 10, 16]
const NETLINK_ROUTE = 0
/** PER_LINUX and PER_LINUX32, each with or without UNAME26, and the query value. */
const PERSONALITIES = [0, 0x0008, 0x2_0000, 0x2_0008, 0xffff_ffff]

/** Calls that podd's own filter decides by arguments, in ways that Docker's profiles cannot express. */
export const FILTERED_BY_PODD = ['ioctl', 'prctl', 'seccomp', 'setsockopt']

interface Argument {
  readonly index: number
  readonly value: number
  readonly valueTwo?: number
  readonly op: 'SCMP_CMP_EQ' | 'SCMP_CMP_MASKED_EQ'
}

export interface SeccompRule {
  readonly names: readonly string[]
  readonly action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO'
  readonly errnoRet?: number
  readonly args?: readonly Argument[]
}

export interface SeccompProfile {
  readonly defaultAction: 'SCMP_ACT_ERRNO'
  readonly defaultErrnoRet: number
  readonly archMap: readonly { readonly architecture: string; readonly subArchitectures: readonly string[] }[]
  readonly syscalls: readonly SeccompRule[]
}

export function seccompProfile(): SeccompProfile {
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: ENOSYS,
    // SECURITY: no sub-architectures: calls of 32-bit and x32 programs have other numbers and are not needed.
    archMap: [
      { architecture: 'SCMP_ARCH_X86_64', subArchitectures: [] },
      { architecture: 'SCMP_ARCH_AARCH64', subArchitectures: [] },
    ],
    syscalls: [
      allow([...ALLOWED, ...ALLOWED_AMD64, ...FILTERED_BY_PODD]),
      refuse([...DENIED, ...DENIED_AMD64], EPERM),
      // clone3 passes its flags in memory, which a filter cannot read; libraries fall back to clone.
      refuse(['clone3'], ENOSYS),
      // SECURITY: attack case PR-03.
      allow(['clone'], [{ index: 0, value: NAMESPACE_FLAGS, valueTwo: 0, op: 'SCMP_CMP_MASKED_EQ' }]),
      ...PERSONALITIES.map((value) => allow(['personality'], [equal(0, value)])),
      // SECURITY: attack case PR-11: unused socket families must not load kernel modules.
      ...[AF_UNIX, AF_INET, AF_INET6].map((family) => allow(['socket', 'socketpair'], [equal(0, family)])),
      allow(['socket', 'socketpair'], [equal(0, AF_NETLINK), equal(2, NETLINK_ROUTE)]),
    ],
  }
}

function allow(names: readonly string[], args?: readonly Argument[]): SeccompRule {
  return { names, action: 'SCMP_ACT_ALLOW', ...(args && { args }) }
}

function refuse(names: readonly string[], errnoRet: number): SeccompRule {
  return { names, action: 'SCMP_ACT_ERRNO', errnoRet }
}

function equal(index: number, value: number): Argument {
  return { index, value, op: 'SCMP_CMP_EQ' }
}
