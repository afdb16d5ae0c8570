// A znode that is to be made: what was typed, and what it asks for. Knows no page.

import type { ApiError } from '../../../api/error';
import { toBase64 } from '../../../format/bytes';
import { childOf } from '../../../format/path';
import { bytesOf, type EditForm, type Fault } from '../edit/convert';

export type Kind = 'persistent' | 'container' | 'ttl';

export interface Wish {
  parent: string;
  name: string;
  kind: Kind;
  sequential: boolean;
  seconds: string;
  acl: 'open' | 'read' | 'creator';
  form: EditForm | 'file';
  text: string;
  /** Its bytes; undefined: none is chosen. */
  file: Uint8Array<ArrayBuffer> | 'reading' | undefined;
}

export const SECONDS_MAX = 1_099_511_627; // 2^40 - 1 ms.

/** Of all the fields, where what is wrong is shown. */
export type Field = 'name' | 'data' | 'acl' | 'form';

export function pathOf({ parent, name }: Pick<Wish, 'parent' | 'name'>): string {
  return childOf(parent, name.replace(/^\/+/, ''));
}

function dataOf({ form, text, file }: Wish): Uint8Array<ArrayBuffer> | Fault | 'no_file' {
  if (form !== 'file') {
    return bytesOf(form, text);
  }
  return file instanceof Uint8Array ? file : 'no_file';
}

/** The members of the operation; a word: the data is none. */
export function membersOf(wish: Wish): object | Fault | 'no_file' {
  const data = dataOf(wish);
  if (typeof data === 'string') {
    return data;
  }
  return {
    path: pathOf(wish),
    data64: toBase64(data),
    ...(wish.name.replace(/^\/+/, '').includes('/') ? { parents: true } : {}),
    ...(wish.sequential && wish.kind !== 'container' ? { sequence: true } : {}),
    ...(wish.kind === 'container' ? { container: true } : {}),
    ...(wish.kind === 'ttl' ? { ttl: Math.round(Number(wish.seconds) * 1_000) } : {}),
    ...(wish.acl === 'open' ? {} : { acl: wish.acl }),
  };
}

/** Which field the replica speaks of. */
export function fieldOf({ code }: ApiError): Field {
  switch (code) {
    case 'BadArguments':
    case 'NodeExists':
    case 'NoNode':
    case 'NoChildrenForEphemerals':
    case 'NoAuth':
      return 'name';
    case 'TooLarge':
    case 'QuotaExceeded':
      return 'data';
    case 'InvalidACL':
      return 'acl';
    default:
      return 'form';
  }
}
