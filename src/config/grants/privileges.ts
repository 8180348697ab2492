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
}

export const NO_PRIVILEGES: Privileges = { sudo: false, ports: [], permissions: [] }

export function hasNoPrivileges({ sudo, ports, permissions, images = [] }: Privileges): boolean {
  return !sudo && ports.length === 0 && permissions.length === 0 && images.length === 0
}

/** The part of the request that is granted. */
export function withinGrant(wanted: Privileges, granted: Privileges): Privileges {
  return {
    sudo: wanted.sudo && granted.sudo,
    ports: portsOf(wanted).filter((port) => hasPort(granted, port)),
    permissions: wanted.permissions.filter((one) => granted.permissions.includes(one)),
    ...someImages(imagesOf(wanted).filter((one) => hasImage(granted, one))),
  }
}

/** The part of the request that is not granted. */
export function beyondGrant(wanted: Privileges, granted: Privileges): Privileges {
  return {
    sudo: wanted.sudo && !granted.sudo,
    ports: portsOf(wanted).filter((port) => !hasPort(granted, port)),
    permissions: wanted.permissions.filter((one) => !granted.permissions.includes(one)),
    ...someImages(imagesOf(wanted).filter((one) => !hasImage(granted, one))),
  }
}

// Only a grant can say `any`: a project lists its ports.
function portsOf({ ports }: Privileges): readonly number[] {
  return ports === 'any' ? [] : ports
}

export function hasPort({ ports }: Privileges, port: number): boolean {
  return ports === 'any' || ports.includes(port)
}

function imagesOf({ images = [] }: Privileges): readonly string[] {
  return images === 'any' ? [] : images
}

/** Compared as written: a grant for one tag covers no other tag. */
export function hasImage({ images = [] }: Privileges, image: string): boolean {
  return images === 'any' || images.includes(image)
}

// Without images the field is left out, so that the hash stays the same as before images existed.
function someImages(images: readonly string[]): Pick<Privileges, 'images'> {
  return images.length === 0 ? {} : { images }
}

/** One line for each item, for the person who decides. */
export function describePrivileges({ sudo, ports, permissions, images = [] }: Privileges): string[] {
  return [
    ...(sudo ? ['programs in the sandbox may become root there (sudo)'] : []),
    ...(ports === 'any' ? ['any port'] : ports.map((port) => `port ${port}`)).map(
      (what) => `${what} open to anyone who has its address`,
    ),
    ...permissions.map((name) => `agents may use ${name} without asking`),
    ...(images === 'any' ? ['any image'] : images.map((image) => `the image ${image}`)).map(
      (what) => `${what}, whose programs may run as root in the sandbox`,
    ),
  ]
}
