/**
 * The base `image`: a container image, used as it is. Its tools and its package manager are not known, so a plan installs nothing from system
 * packages, and the project's steps run with the image's own tools.
 */
import { AgentPodError, invalid } from '../core/error.ts'
import { atDigest, type ImageRef, imageText, parseImageRef } from '../core/image-ref.ts'
import type { BaseWish } from '../core/recipe.ts'
import type { BaseKind, Ground, Making, Ready } from './kind.ts'

/** For the download of a large image. */
const PULL = { timeoutMs: 30 * 60_000 }

export const image: BaseKind = {
  name: 'image',
  takesImage: true,
  isReadyAtOnce: false,
  ready,
  // Where no digest is known, the provider's own reference stands for it: another digest has another reference.
  identity: ({ digest }, root) => digest ?? root,
  recipe: ({ image: ref }) => ({ name: 'image', image: ref }),

  releases: [],
  grounds: () => [],
  called,
  within: (ground) => `in ${called(ground)}`,
  detail: ({ image: ref }) => ref,

  packageManager: undefined,
  hasKnownTools: false,
  languages: () => [{ kind: 'own', version: '', where: 'the image' }],
  server: () => undefined,
  tool: () => ({ version: undefined }),
  isPackaged: () => false,
  hasPackage: () => false,
  lacking: (_ground, _machine, { packages }) => ({ packages, tools: [] }),
  aboutPackage: ({ isOptional }) =>
    isOptional ? 'left out: only CI installs it' : 'not installed: the image is used as it is',
  otherwise:
    '; nothing is installed into an image: take one that has it, or write [environment] base = "debian"',
  lockRefusal: {
    reason: 'lock.image',
    message: 'the base image is not locked: its digest does that',
    hint: 'write the digest in agentpod.toml: [environment] image = "name@sha256:..."',
  },

  // Every image has this user, and may have no other.
  user: 'root',
  hasProfile: false,
  trust: 'own',
}

function called({ image: ref = '' }: Ground): string {
  return `the image ${ref}`
}

/** `invalid_argument` where none is named, or what is named is no reference. */
export function imageOf({ image: text, digest }: Pick<BaseWish, 'image' | 'digest'>): ImageRef {
  if (text === undefined)
    throw invalid('image.missing', 'the base image needs an image', 'name one, like --image debian:12')
  const ref = parseImageRef(text)
  return digest === undefined ? ref : atDigest(ref, digest)
}

async function ready(wish: BaseWish, { provider, onProgress }: Making): Promise<Ready> {
  const ref = imageOf(wish)
  if (!provider.images)
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'provider.images',
      message: `${provider.name} takes no images`,
      hint: 'the provider docker does; without it, use --base debian',
    })
  const found = await provider.images.ensure(imageText(ref), onProgress, PULL)
  const { root, digest, env: variables, user, workdir } = found
  return { root, digest, variables, user, workdir }
}
