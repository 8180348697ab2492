/**
 * What a base is. Every kind has a file of its own beside this one, and `bases.ts` lists them. Whoever needs to know something about a base
 * asks its kind; nobody else compares names.
 */
import type { Base } from '../core/environment.ts'
import type { Provider, RootRef } from '../core/provider.ts'
import type { BaseWish, Kit, RecipeBase, Suite } from '../core/recipe.ts'

/** What a server says about its machine. */
export interface Machine {
  readonly arch: string
  /** Debian's release where none is named. */
  readonly suite: string
  readonly host: readonly { readonly name: string; readonly version: string; readonly directory: string }[]
}

/** The base that a plan stands on. */
export interface Ground {
  readonly base: Base
  /** Of a base that has releases: which. */
  readonly suite?: Suite | undefined
  /** Of `image`: its reference. */
  readonly image?: string | undefined
}

/** A program in packages of the base's own. */
export interface PackagedTool {
  readonly version: string
  readonly packages: readonly string[]
  /** Where its programs are, where that is not on every PATH. */
  readonly directory?: string | undefined
}

/** Where a language comes from when the base has it. `where` is for people and for agentpod.lock. */
export type BaseSource =
  | {
      readonly kind: 'there'
      readonly version: string
      readonly directory: string
      readonly where: string
    }
  | {
      readonly kind: 'packaged'
      /** As far as it is known ahead: a release may have a newer patch. */
      readonly version: string
      readonly tool: PackagedTool
      readonly where: string
    }
  /** Of a base that nobody has looked into: whatever it has, in whatever version. */
  | { readonly kind: 'own'; readonly version: ''; readonly where: string }

/** What the project wants from the system. */
export interface SystemWish {
  readonly packages: readonly string[]
  readonly tools: readonly string[]
}

/** What a kind is given to make itself ready with. */
export interface Making {
  readonly provider: Provider
  /** Debian's release where none is named. */
  readonly suite: string
  onProgress(line: string): void
  /** The digest of a layer with Debian in it, built where it is not. */
  debian(suite: string, kit: Kit): Promise<string>
}

/** A base that sandboxes can begin with. */
export interface Ready {
  readonly root: RootRef
  /** Of `image`: what the reference stands for. */
  readonly digest?: string | undefined
  /** What an image's own settings say. */
  readonly variables?: Readonly<Record<string, string>> | undefined
  readonly user?: string | undefined
  readonly workdir?: string | undefined
}

export interface BaseKind {
  readonly name: Base
  /** Whether an image has to be named for it. */
  readonly takesImage: boolean
  /** Whether there is nothing to wait for before the first sandbox. */
  readonly isReadyAtOnce: boolean
  /** `unsupported` where the provider has no such base. */
  ready(wish: BaseWish, making: Making): Promise<Ready>
  /** Everything about the base that could make the layers on it other ones. */
  identity(base: RecipeBase, root: RootRef, provider: Provider): unknown
  /** The base of a recipe. `used`: tools of the base that the steps rely on. */
  recipe(ground: Ground, used: Readonly<Record<string, string>>): RecipeBase

  /** Releases to choose from, newest first. */
  readonly releases: readonly Suite[]
  /** Every ground of this kind that a plan may choose by itself, or name in advice. */
  grounds(): readonly Ground[]
  /** `this machine`, `Debian trixie`, `the image debian:12`. */
  called(ground: Ground): string
  /** `on this machine`, `in the image debian:12`. */
  within(ground: Ground): string
  /** What `config explain` adds to the name; undefined where the name says it all. */
  detail(ground: Ground): string | undefined

  /** What installs packages of the system, by the name of its preset; undefined where nothing is installed. */
  readonly packageManager: 'apt' | undefined
  /** Whether somebody has looked which tools it has, and in which versions. */
  readonly hasKnownTools: boolean
  /** Versions of a language that it has, the one to prefer first. */
  languages(ground: Ground, machine: Machine, language: string): readonly BaseSource[]
  /** A server program: `name` is that of the service, `tool` that of the program. */
  server(ground: Ground, machine: Machine, name: string, tool: string): PackagedTool | undefined
  /** A tool that lies on it in one of the versions that `fits` takes. */
  tool(machine: Machine, name: string, fits: (version: string) => boolean): FoundOnBase | undefined
  /** Whether packages that it installs, or that another base would install, have a tool. */
  isPackaged(ground: Ground, tool: string): boolean
  /** Whether it has what a package of Debian's would bring. */
  hasPackage(machine: Machine, name: string): boolean
  /** Of what the project wants from the system: what it is not known to have and cannot get. */
  lacking(ground: Ground, machine: Machine, wish: SystemWish): SystemWish
  /** What `config explain` says of a package of Debian's. */
  aboutPackage(o: { readonly isThere: boolean; readonly isOptional: boolean }): string
  /** What to do about a service that it does not have and Debian has. */
  readonly otherwise: string
  /** Why agentpod.lock cannot hold it, and what to do instead; undefined where it can. */
  readonly lockRefusal:
    | { readonly reason: string; readonly message: string; readonly hint: string }
    | undefined

  /** Who commands of a project run as when nobody says. */
  readonly user: string
  /** Whether a login shell's PATH is ours to set. */
  readonly hasProfile: boolean
  /** Whose certificates its programs trust: those of this machine's system, or whatever it brings. */
  readonly trust: 'machine' | 'own'
}

export interface FoundOnBase {
  /** Undefined where it is not known. */
  readonly version: string | undefined
  readonly directory?: string | undefined
}
