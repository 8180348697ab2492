/** What a project may have only when its user grants it, beside the network and secrets. */
import type { PermissionKind } from '../core/permission.ts'

/** What is asked for, or what is granted. */
export interface Privileges {
  /** Whether programs inside may become root inside. */
  readonly sudo: boolean
  /** Ports that whoever has their address may open. */
  readonly ports: 'any' | readonly number[]
  /** What agents may do without asking. */
  readonly permissions: readonly PermissionKind[]
  /** Container images that the environment is put on: a provider fetches them, and their programs may run as root inside. */
  readonly images?: 'any' | readonly string[] | undefined
}

export const NO_PRIVILEGES: Privileges = { sudo: false, ports: [], permissions: [] }

export function isNothing({ sudo, ports, permissions, images = [] }: Privileges): boolean {
  return !sudo && ports.length === 0 && permissions.length === 0 && images.length === 0
}

/** What is wanted, as far as it is granted. */
export function withinGrant(wanted: Privileges, granted: Privileges): Privileges {
  return {
    sudo: wanted.sudo && granted.sudo,
    ports: portsOf(wanted).filter((port) => hasPort(granted, port)),
    permissions: wanted.permissions.filter((one) => granted.permissions.includes(one)),
    ...someImages(imagesOf(wanted).filter((one) => hasImage(granted, one))),
  }
}

/** What is wanted and not granted. */
export function beyondGrant(wanted: Privileges, granted: Privileges): Privileges {
  return {
    sudo: wanted.sudo && !granted.sudo,
    ports: portsOf(wanted).filter((port) => !hasPort(granted, port)),
    permissions: wanted.permissions.filter((one) => !granted.permissions.includes(one)),
    ...someImages(imagesOf(wanted).filter((one) => !hasImage(granted, one))),
  }
}

// Only a grant may say any: a project names its ports.
function portsOf({ ports }: Privileges): readonly number[] {
  return ports === 'any' ? [] : ports
}

export function hasPort({ ports }: Privileges, port: number): boolean {
  return ports === 'any' || ports.includes(port)
}

function imagesOf({ images = [] }: Privileges): readonly string[] {
  return images === 'any' ? [] : images
}

/** As it is written: a tag that was granted grants no other one. */
export function hasImage({ images = [] }: Privileges, image: string): boolean {
  return images === 'any' || images.includes(image)
}

// A wish without images has the hash that it had before there were any.
function someImages(images: readonly string[]): Pick<Privileges, 'images'> {
  return images.length === 0 ? {} : { images }
}

/** A line each, for the person who is to decide. */
export function describePrivileges({ sudo, ports, permissions, images = [] }: Privileges): string[] {
  return [
    ...(sudo ? ['programs inside may become root inside (sudo)'] : []),
    ...(ports === 'any' ? ['any port'] : ports.map((port) => `port ${port}`)).map(
      (what) => `${what} open to whoever has its address`,
    ),
    ...permissions.map((name) => `agents need not ask for ${name}`),
    ...(images === 'any' ? ['any image'] : images.map((image) => `the image ${image}`)).map(
      (what) => `${what}, whose programs may run as root inside`,
    ),
  ]
}
