/** Texts to look for, made ready once for all the streams that are looked through for them. */
import { Finder, type Needle } from './finder.ts'
import { needlesOf, wrappedNeedlesOf } from './needles.ts'
import { WrappedFinder } from './wrapped.ts'

export class Watch {
  /** Every form that a text can travel in. */
  readonly forms: Finder
  /** The texts themselves, for bytes whose percent codes have been read. */
  readonly texts: Finder
  readonly wrapped: WrappedFinder

  constructor(texts: readonly string[]) {
    const all = (needles: (text: string) => Buffer[]): Needle[] =>
      texts.flatMap((text, at) => needles(text).map((bytes) => ({ bytes, text: at })))
    this.forms = new Finder(all(needlesOf))
    this.texts = new Finder(all((text) => [Buffer.from(text)]))
    this.wrapped = new WrappedFinder(all(wrappedNeedlesOf))
  }

  static of(texts: readonly string[] | Watch): Watch {
    return texts instanceof Watch ? texts : new Watch(texts)
  }
}
