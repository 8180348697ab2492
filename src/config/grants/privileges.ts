/** Privileges that a project gets only if its user grants them, besides network and secrets. */
import type { PermissionKind } from '../../core/permission.ts'

/** Requested or granted privileges. */
export interface Privileges {
  /** Whether programs in the sandbox may become root there. */
  readonly sudo: boolean
  /** Ports that are open to anyone who has their address. */
  readonly ports: 'any' | readonly number[]
  /** What agents may do without asking. */
  readonly permissions: readonly PermissionKind[]
  /**
   * Container images to use as a base: a provider fetches them, and their programs may run as root in the
   * sandbox.
   */
  readonly images?: 'any' | readonly string[] | undefined
  /** Dockerfiles to build as a base, by their paths: their steps run as root in sandboxes. */
  readonly dockerfiles?: 'any' | readonly string[] | undefined
  /** What else devcontainer.json asks for, as the lines that a person approves. */
  readonly devcontainer?: 'any' | readonly string[] | undefined
}

export const NO_PRIVILEGES: Privileges = { sudo: false, ports: [], permissions: [] }

export function hasNoPrivileges({
  sudo,
  ports,
  permissions,
  images = [],
  dockerfiles = [],
  devcontainer = [],
}: Privileges): boolean {
  return !sudo && [ports, permissions, images, dockerfiles, devcontainer].every((list) => list.length === 0)
}

/** The part of the request that is granted. */
export function withinGrant(wanted: Privileges, granted: Privileges): Privileges {
  return {
    sudo: wanted.sudo && granted.sudo,
    ports: portsOf(wanted).filter((port) => hasPort(granted, port)),
    permissions: wanted.permissions.filter((one) => granted.permissions.includes(one)),
    ...some(
      'images',
      listed(wanted.images).filter((one) => hasImage(granted, one)),
    ),
    ...some(
      'dockerfiles',
      listed(wanted.dockerfiles).filter((one) => hasDockerfile(granted, one)),
    ),
    ...some(
      'devcontainer',
      listed(wanted.devcontainer).filter((one) => hasDevcontainerLine(granted, one)),
    ),
  }
}

/** The part of the request that is not granted. */
export function beyondGrant(wanted: Privileges, granted: Privileges): Privileges {
  return {
    sudo: wanted.sudo && !granted.sudo,
    ports: portsOf(wanted).filter((port) => !hasPort(granted, port)),
    permissions: wanted.permissions.filter((one) => !granted.permissions.includes(one)),
    ...some(
      'images',
      listed(wanted.images).filter((one) => !hasImage(granted, one)),
    ),
    ...some(
      'dockerfiles',
      listed(wanted.dockerfiles).filter((one) => !hasDockerfile(granted, one)),
    ),
    ...some(
      'devcontainer',
      listed(wanted.devcontainer).filter((one) => !hasDevcontainerLine(granted, one)),
    ),
  }
}

// Only a grant can say `any`: a project lists its ports.
function portsOf({ ports }: Privileges): readonly number[] {
  return ports === 'any' ? [] : ports
}

export function hasPort({ ports }: Privileges, port: number): boolean {
  return ports === 'any' || ports.includes(port)
}

function listed(names: Privileges['images'] = []): readonly string[] {
  return names === 'any' ? [] : names
}

/** Compared as written: a grant for one tag covers no other tag. */
export function hasImage({ images = [] }: Privileges, image: string): boolean {
  return images === 'any' || images.includes(image)
}

export function hasDockerfile({ dockerfiles = [] }: Privileges, file: string): boolean {
  return dockerfiles === 'any' || dockerfiles.includes(file)
}

export function hasDevcontainerLine({ devcontainer = [] }: Privileges, line: string): boolean {
  return devcontainer === 'any' || devcontainer.includes(line)
}

// Empty lists are left out, so that the hash stays the same as before these fields existed.
function some(
  field: 'images' | 'dockerfiles' | 'devcontainer',
  names: readonly string[],
): Partial<Privileges> {
  return names.length === 0 ? {} : { [field]: names }
}

/** One line for each item, for the person who decides. */
export function describePrivileges({
  sudo,
  ports,
  permissions,
  images = [],
  dockerfiles = [],
  devcontainer = [],
}: Privileges): string[] {
  return [
    ...(sudo ? ['programs in the sandbox may become root there (sudo)'] : []),
    ...(ports === 'any' ? ['any port'] : ports.map((port) => `port ${port}`)).map(
      (what) => `${what} open to anyone who has its address`,
    ),
    ...permissions.map((name) => `agents may use ${name} without asking`),
    ...(images === 'any' ? ['any image'] : images.map((image) => `the image ${image}`)).map(
      (what) => `${what}, whose programs may run as root in the sandbox`,
    ),
    ...(dockerfiles === 'any' ? ['any Dockerfile'] : dockerfiles.map((file) => `the Dockerfile ${file}`)).map(
      (what) => `${what}, whose steps run as root in sandboxes`,
    ),
    ...(devcontainer === 'any' ? ['everything that devcontainer.json asks for'] : devcontainer),
  ]
}
