/** How the environment of a project is planned if a service of its compose file is the project itself. */
import { inactiveNotes } from '../../config/compose/inactive-notes.ts'
import { serviceSettings, unusedSettings } from '../../config/compose/service-settings.ts'
import type { Detected } from '../../config/detect/detect.ts'
import { serviceFormat } from '../../config/detect/formats/compose.ts'
import { placeText } from '../../config/evidence.ts'
import type { EnvironmentPlanOptions } from '../environment/plan-environment.ts'
import { type ProjectCompose, withoutServices } from './project-compose.ts'

export type ComposePlan = Required<
  Pick<EnvironmentPlanOptions, 'detected' | 'service' | 'isWithoutDevcontainer'>
> &
  Pick<EnvironmentPlanOptions, 'approvedBase'>

/**
 * The sandbox has the image or Dockerfile of the service, its variables, ports, command, user and limits, and
 * what is detected on top. Services are members of the group, so detection gives none.
 */
export function composePlan({ compose, service }: ProjectCompose, detected: Detected): ComposePlan {
  const own = withoutServices(detected)
  const format = serviceFormat(detected.tree, compose, service)
  const [base] = format.bases
  return {
    detected: {
      ...own,
      formats: [format, ...own.formats],
      ports: [...format.ports, ...own.ports],
      bases: [...format.bases, ...own.bases],
    },
    service: serviceSettings(service),
    // The compose file decides only where no devcontainer does.
    isWithoutDevcontainer: true,
    ...(base && { approvedBase: base }),
  }
}

/** What a person should know about the file: which sandbox is which service, and what is not used. */
export function composeNotes(composed: ProjectCompose): string[] {
  const { compose, service, why } = composed
  const others = compose.services.filter((one) => one !== service).map(({ name }) => name)
  const beside =
    others.length === 0 ? '' : `; ${others.join(', ')} ${others.length === 1 ? 'runs' : 'run'} beside it`
  return [
    `${placeText(service)}: this sandbox is the service ${service.name}, because ${why}${beside}`,
    ...unusedNotes(composed),
  ]
}

/** The same without the first line. */
export function unusedNotes({ compose, service }: ProjectCompose): string[] {
  const published = compose.services.filter((one) => one !== service && one.ports.length > 0)
  return [
    ...joined(compose.notes),
    ...unusedSettings(service),
    ...published.map(
      (one) =>
        `${placeText(one)}: ports of ${one.name} are not forwarded to this machine; \`agentpod group ls\` shows its sandbox, and \`agentpod port NAME PORT --forward PORT\` forwards one`,
    ),
    ...inactiveNotes(compose),
  ]
}

/** Notes of the same text are one line that names every place. */
function joined(notes: ProjectCompose['compose']['notes']): string[] {
  const places = new Map<string, string[]>()
  for (const { file, line, said } of notes) {
    const known = places.get(`${file}\0${said}`)
    if (!known) places.set(`${file}\0${said}`, [placeText({ file, line })])
    else if (line !== undefined && !known.includes(String(line))) known.push(String(line))
  }
  return [...places].map(([key, at]) => `${at.join(', ')}: ${key.slice(key.indexOf('\0') + 1)}`)
}
