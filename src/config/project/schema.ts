/** `agentpod.toml` as a whole. Everything may be left out. */
import { z } from 'zod'
import { ISOLATIONS } from '../../core/capability.ts'
import { networkTable, secretsTable } from '../network-table.ts'
import { agentsTable, permissionsTable } from './agents-table.ts'
import { environmentTable } from './environment-table.ts'
import { lifecycleTable, portsTable } from './lifecycle-table.ts'
import { resourcesTable } from './resources-table.ts'
import { KNOWN_SERVICES, servicesTable } from './services-table.ts'
import { about, table, word } from './values.ts'

const profile = z.strictObject({
  resources: resourcesTable
    .optional()
    .meta(about('Sizes in place of those of `[resources]`, larger or smaller.', 'as in `[resources]`')),
  network: networkTable
    .optional()
    .meta(
      about(
        'Less than `[network]` has: a stricter mode, some of its presets, some of its hosts, more denials.',
        'as in `[network]`',
      ),
    ),
  agents: z
    .strictObject({
      permissions: permissionsTable
        .optional()
        .meta(
          about('Stricter answers than those of `[agents.permissions]`.', 'as in `[agents.permissions]`'),
        ),
    })
    .optional()
    .meta(about('What is stricter for agents.')),
})
export type ProfileTable = z.infer<typeof profile>

const KNOWN = Object.keys(KNOWN_SERVICES)
  .map((name) => `\`${name}\``)
  .join(', ')

export const projectSchema = z.strictObject({
  isolation: z
    .enum(ISOLATIONS)
    .optional()
    .meta(
      about(
        'The least isolation that its sandboxes may have: `container`, `gvisor` or `vm`. An option may ask for more, never for less.',
        'any',
      ),
    ),
  environment: environmentTable
    .optional()
    .meta(about('What is inside: the base, the user, languages, packages and variables.')),
  services: servicesTable
    .optional()
    .meta(
      about(
        `Programs that run beside the commands, started in this order and ready before any command: those that we know by name (${KNOWN}), or any command. \`false\` means no such service, even where one is detected.`,
      ),
    ),
  ports: portsTable.optional().meta(about('Ports that the project listens on, by number.')),
  lifecycle: lifecycleTable
    .optional()
    .meta(
      about(
        'Commands for /bin/sh, in the project’s directory: a string, a list that runs in order until one fails, or `false` for none even where one is detected.',
      ),
    ),
  resources: resourcesTable
    .optional()
    .meta(about('How much a sandbox has, and how long it lives. Options of the command line go before.')),
  network: networkTable
    .optional()
    .meta(
      about(
        'Which hosts may be reached. It narrows what the user’s own file grants; what goes beyond that is asked for.',
      ),
    ),
  secrets: secretsTable
    .optional()
    .meta(
      about(
        'Secrets that the project uses, by name. A sandbox gets a placeholder for each, never the value.',
      ),
    ),
  agents: agentsTable.optional().meta(about('Which agent works on the project, and what it may do.')),
  profiles: table(word('a profile’s name'), profile, 32)
    .optional()
    .meta(
      about(
        'Named bundles of smaller or larger sizes and stricter rules, to be chosen when a sandbox is made.',
      ),
    ),
})
export type ProjectTables = z.infer<typeof projectSchema>
