/**
 * The seccomp profile that Docker puts on podd and on everything else in the container. podd puts its own filter over it, which is as strict
 * or stricter in every call: what that decides by arguments is let through here.
 */
import { ALLOWED, ALLOWED_AMD64, DENIED, DENIED_AMD64 } from './system-calls.ts'

const EPERM = 1
const ENOSYS = 38

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. */
const NAMESPACE_FLAGS = 0x7e02_0000
const [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK] = [1, 2, 10, 16]
const NETLINK_ROUTE = 0
/** Linux and Linux 32, each with UNAME26 or not, and the question. */
const PERSONALITIES = [0, 0x0008, 0x2_0000, 0x2_0008, 0xffff_ffff]

/** Calls of which podd's own filter lets some arguments through and refuses others, in ways that Docker's language cannot say. */
export const LEFT_TO_PODD = ['ioctl', 'prctl', 'seccomp', 'setsockopt']

interface Argument {
  readonly index: number
  readonly value: number
  readonly valueTwo?: number
  readonly op: 'SCMP_CMP_EQ' | 'SCMP_CMP_MASKED_EQ'
}

export interface Rule {
  readonly names: readonly string[]
  readonly action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO'
  readonly errnoRet?: number
  readonly args?: readonly Argument[]
}

export interface Profile {
  readonly defaultAction: 'SCMP_ACT_ERRNO'
  readonly defaultErrnoRet: number
  readonly archMap: readonly { readonly architecture: string; readonly subArchitectures: readonly string[] }[]
  readonly syscalls: readonly Rule[]
}

export function seccompProfile(): Profile {
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: ENOSYS,
    // SECURITY: no sub-architectures. Calls of 32-bit programs and of x32 have other numbers, and no business here.
    archMap: [
      { architecture: 'SCMP_ARCH_X86_64', subArchitectures: [] },
      { architecture: 'SCMP_ARCH_AARCH64', subArchitectures: [] },
    ],
    syscalls: [
      allow([...ALLOWED, ...ALLOWED_AMD64, ...LEFT_TO_PODD]),
      refuse([...DENIED, ...DENIED_AMD64], EPERM),
      // clone3 hides its flags in memory, where a filter cannot look; libraries fall back to clone.
      refuse(['clone3'], ENOSYS),
      // SECURITY: attack case PR-03.
      allow(['clone'], [{ index: 0, value: NAMESPACE_FLAGS, valueTwo: 0, op: 'SCMP_CMP_MASKED_EQ' }]),
      ...PERSONALITIES.map((value) => allow(['personality'], [equal(0, value)])),
      // SECURITY: attack case PR-11; a family nobody uses is a kernel module nobody loads.
      ...[AF_UNIX, AF_INET, AF_INET6].map((family) => allow(['socket', 'socketpair'], [equal(0, family)])),
      allow(['socket', 'socketpair'], [equal(0, AF_NETLINK), equal(2, NETLINK_ROUTE)]),
    ],
  }
}

function allow(names: readonly string[], args?: readonly Argument[]): Rule {
  return { names, action: 'SCMP_ACT_ALLOW', ...(args && { args }) }
}

function refuse(names: readonly string[], errnoRet: number): Rule {
  return { names, action: 'SCMP_ACT_ERRNO', errnoRet }
}

function equal(index: number, value: number): Argument {
  return { index, value, op: 'SCMP_CMP_EQ' }
}
