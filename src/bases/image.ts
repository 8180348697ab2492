/**
 * The base `image`: a container image. Its tools and package manager are not known, so a plan installs no
 * system packages but those that agentpod.toml names, and the project's steps run with the image's own tools.
 */
import { AgentPodError, invalid } from '../core/error.ts'
import { atDigest, type ImageRef, imageText, parseImageRef } from '../core/image-ref.ts'
import type { BaseWish } from '../core/recipe.ts'
import type { BaseContext, BaseDockerfile, BaseKind, ReadyBase, ResolvedBase } from './base-kind.ts'

/** For the download of a large image. */
const PULL = { timeoutMs: 30 * 60_000 }

export const image: BaseKind = {
  name: 'image',
  takesImage: true,
  isReadyAtOnce: false,
  ready,
  // Without a digest, the provider's reference identifies the image: another digest has another reference.
  identity: ({ digest }, root) => digest ?? root,
  recipe: ({ image: ref }) => ({ name: 'image', image: ref }),
  releases: [],
  variants: () => [],
  lockRefusal: {
    reason: 'lock.image',
    message: 'the base image needs no lock: pin its digest instead',
    hint: 'write the digest in agentpod.toml: [environment] image = "name@sha256:..."',
  },

  texts: {
    label,
    locationLabel: (resolvedBase) => `in ${label(resolvedBase)}`,
    detail: ({ image: ref, dockerfile }) => (dockerfile ? dockerfileText(dockerfile) : ref),
    aboutPackage({ isOptional, isAsked }) {
      if (isAsked) return 'from the image’s own apt'
      return isOptional
        ? 'left out: only CI installs it'
        : 'not installed: list it in [environment.packages] apt, if the image has apt'
    },
    missingServiceHint:
      '; nothing is installed into an image: use an image that has it, or set base = "debian" under [environment]',
  },

  tools: {
    packageManager: undefined,
    ownPackageManager: 'apt',
    hasKnownTools: false,
    languages: () => [{ kind: 'own', version: '', where: 'the image' }],
    server: () => undefined,
    tool: () => ({ version: undefined }),
    isPackaged: () => false,
    hasPackage: () => false,
    lacking: (_base, _machine, { packages }) => ({ packages, tools: [] }),
  },

  system: {
    // Every image has this user, and it may be the only one.
    user: 'root',
    hasProfile: false,
    trust: 'own',
  },
}

function label({ image: ref = '', dockerfile }: ResolvedBase): string {
  return dockerfile ? `the image of ${dockerfile.file}` : `the image ${ref}`
}

function dockerfileText({ file, context, target, args }: BaseDockerfile): string {
  const parts = [
    file,
    ...(target === undefined ? [] : [`stage ${target}`]),
    ...(context === '' ? [] : [`context ${context}`]),
    ...Object.entries(args).map(([name, value]) => `${name}=${value}`),
  ]
  return parts.join(', ')
}

/** Throws `invalid_argument` if no image is named or the name is not a reference. */
export function imageOf({ image: text, digest }: Pick<BaseWish, 'image' | 'digest'>): ImageRef {
  if (text === undefined)
    throw invalid(
      'image.missing',
      'the base "image" needs the name of a container image',
      'for example: --image debian:12',
    )
  const ref = parseImageRef(text)
  return digest === undefined ? ref : atDigest(ref, digest)
}

async function ready(wish: BaseWish, { provider, onProgress }: BaseContext): Promise<ReadyBase> {
  const ref = imageOf(wish)
  if (!provider.images)
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'provider.images',
      message: `${provider.name} does not support container images`,
      hint: 'use the provider docker, or --base debian; on this machine scripts/build builds podimage, which images need',
    })
  const found = await provider.images.ensure(imageText(ref), onProgress, {
    ...PULL,
    isAnonymous: wish.isAnonymous,
  })
  const { root, digest, env: variables, user, workdir } = found
  return { root, digest, variables, user, workdir }
}
