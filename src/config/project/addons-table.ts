/** The table `[addons]`: programs for a person in the browser, each on a port of its own. */
import * as z from 'zod'
import { about, portValue } from './values.ts'

/** The addons, each with the port it is known by. */
export const ADDON_PORTS = { 'code-server': 13_337, gui: 6080 } as const satisfies Readonly<
  Record<string, number>
>
export type AddonName = keyof typeof ADDON_PORTS
export const ADDON_NAMES = Object.keys(ADDON_PORTS) as AddonName[]

function addonValue(name: AddonName, description: string) {
  const settings = z.strictObject({
    port: portValue.optional().meta(about('The port it listens on.', `\`${ADDON_PORTS[name]}\``)),
  })
  return z
    .union([z.boolean(), settings])
    .optional()
    .meta({ kind: '`true`, `false` or table' })
    .meta(about(description, '`false`'))
}

export const addonsTable = z.strictObject({
  'code-server': addonValue('code-server', 'VS Code in the browser, with the project open.'),
  gui: addonValue(
    'gui',
    'A desktop in the browser: a virtual display with a window manager, through VNC and noVNC.',
  ),
})
export type AddonsTable = z.infer<typeof addonsTable>
