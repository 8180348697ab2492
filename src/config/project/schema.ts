/** `agentpod.toml` as a whole. Everything may be left out. */
import * as z from 'zod'
import { ISOLATIONS } from '../../core/capability.ts'
import { networkTable, secretsTable } from '../network/network-table.ts'
import { addonsTable } from './addons-table.ts'
import { agentsTable, permissionsTable } from './agents-table.ts'
import { environmentTable } from './environment-table.ts'
import { ephemeralTable } from './ephemeral-table.ts'
import { lifecycleTable, portsTable } from './lifecycle-table.ts'
import { resourcesTable } from './resources-table.ts'
import { SERVICE_NAMES, servicesTable } from './services-table.ts'
import { about, keyedTable, wordValue } from './values.ts'
import { volumesTable } from './volumes-table.ts'

const profile = z.strictObject({
  resources: resourcesTable
    .optional()
    .meta(about('Sizes that replace those of `[resources]`, larger or smaller.', 'as in `[resources]`')),
  network: networkTable
    .optional()
    .meta(
      about(
        'A subset of `[network]`: a stricter mode, some of its presets, some of its hosts, more denials.',
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
    .meta(about('Stricter settings for agents.')),
})
export type ProfileTable = z.infer<typeof profile>

const KNOWN = Object.keys(SERVICE_NAMES)
  .map((name) => `\`${name}\``)
  .join(', ')

export const projectSchema = z.strictObject({
  isolation: z
    .enum(ISOLATIONS)
    .optional()
    .meta(
      about(
        'The weakest isolation its sandboxes may have: `container`, `gvisor` or `vm`. Options can ask for stronger isolation, never for weaker.',
        'any',
      ),
    ),
  docker: z
    .boolean()
    .optional()
    .meta(
      about(
        'Whether a Docker engine runs inside its sandboxes. It needs `isolation = "gvisor"` or `"vm"`, and `docker.io` and `iptables` in the environment.',
        'false',
      ),
    ),
  environment: environmentTable
    .optional()
    .meta(about('The environment: base, user, languages, packages and variables.')),
  services: servicesTable
    .optional()
    .meta(
      about(
        `Programs that run beside the commands, started in this order and ready before any command: known services (${KNOWN}), or any command. \`false\` turns a service off even if it is detected.`,
      ),
    ),
  addons: addonsTable
    .optional()
    .meta(
      about(
        'Programs for you in the browser, built as layers and started with the environment. They have private addresses, which `agentpod dev` and `agentpod port` print. They need a base on which packages can be installed: `debian`, or an image with apt.',
      ),
    ),
  ports: portsTable.optional().meta(about('Ports that the project listens on, by number.')),
  lifecycle: lifecycleTable
    .optional()
    .meta(
      about(
        'Commands for /bin/sh, in the project’s directory: a string, a list that runs in order until one fails, or `false` for none even if one is detected.',
      ),
    ),
  resources: resourcesTable
    .optional()
    .meta(about('The size and lifetime of a sandbox. Command-line options override them.')),
  volumes: volumesTable
    .optional()
    .meta(
      about(
        'Directories that outlive the sandboxes, such as package caches and the files of a database: by name, with the path where each is mounted. They belong to this project alone, and are created when they are first used.',
      ),
    ),
  ephemeral: ephemeralTable
    .optional()
    .meta(
      about(
        'Directories that are never kept. They are in memory, empty at every start, and no part of snapshots, forks, branches and patches.',
      ),
    ),
  network: networkTable
    .optional()
    .meta(
      about(
        'Which hosts sandboxes can reach. The file can narrow what the user’s own file grants; anything beyond that needs approval.',
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
  profiles: keyedTable(wordValue('a profile’s name'), profile, 32)
    .optional()
    .meta(about('Named sets of sizes and stricter rules, chosen when a sandbox is created.')),
})
export type ProjectTables = z.infer<typeof projectSchema>
