/** Where AgentPod reads a compose file differently from Docker's own command, on purpose. */
import type { ComparedServices } from './compare.ts'

export interface Difference {
  /** A part of the sentence in docs/guides/groups.md that gives the reason. */
  readonly documented: string
  /** What AgentPod reads, from what Docker's command reads. */
  expected(docker: ComparedServices): ComparedServices
}

/** By the name of the project. */
export const DIFFERENCES: Readonly<Record<string, Difference>> = {
  'environment as a list and as a table, with values of every kind': {
    documented: 'a number, date or similar value of a variable keeps the text of the file',
    expected: (docker) =>
      changed(docker, 'table', 'environment', { DATE: '2020-01-02', FLOAT: '1.50', HEX: '0x1F' }),
  },
  'text in blocks, and odd scalars': {
    documented: 'a number, date or similar value of a variable keeps the text of the file',
    expected: (docker) => changed(docker, 'web', 'environment', { OCTAL: '0755' }),
  },
  'short and long volumes': {
    documented: 'a `tmpfs` below `/run` or `/tmp` is a directory there',
    expected: (docker) => {
      const mounts = docker['web']?.['mounts'] as readonly { readonly target: string }[]
      const own = mounts.map((one) =>
        one.target === '/run/quick' ? { kind: 'empty', target: one.target } : one,
      )
      const sorted = own.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
      return { ...docker, web: { ...docker['web'], mounts: sorted } }
    },
  },
}

function changed(
  services: ComparedServices,
  name: string,
  key: string,
  values: Readonly<Record<string, string>>,
): ComparedServices {
  const service = services[name]
  return { ...services, [name]: { ...service, [key]: { ...(service?.[key] as object), ...values } } }
}
