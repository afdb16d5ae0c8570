// Bytes as a text that can be edited, and back. Each way back gives the very bytes that the text was
// made of; what cannot be edited so is not offered.

import { asUtf8, base64Text, fromBase64Text, fromHex, hexText } from '../../../format/bytes';
import { isJson } from '../../../format/json';
import { isReadable } from '../../../format/text';

export const EDIT_FORMS = ['text', 'json', 'hex', 'base64'] as const;

export type EditForm = (typeof EDIT_FORMS)[number];

type Bytes = Uint8Array<ArrayBuffer>;

/** Why a text stands for no bytes. */
export type Fault = 'bad_json' | 'bad_hex' | 'bad_base64';

/** The preferred form to edit these bytes. */
export function bestForm(bytes: Bytes): EditForm {
  const text = asUtf8(bytes);
  if (text === undefined || !isReadable(text)) {
    return 'hex';
  }
  return isJson(text) ? 'json' : 'text';
}

/** undefined: not in this form. */
export function textOf(form: EditForm, bytes: Bytes): string | undefined {
  switch (form) {
    case 'hex':
      return hexText(bytes);
    case 'base64':
      return base64Text(bytes);
    default:
      return asUtf8(bytes);
  }
}

export function bytesOf(form: EditForm, text: string): Bytes | Fault {
  switch (form) {
    case 'hex':
      return fromHex(text) ?? 'bad_hex';
    case 'base64':
      return fromBase64Text(text) ?? 'bad_base64';
    case 'json':
      return jsonFault(text) === undefined ? encode(text) : 'bad_json';
    case 'text':
      return encode(text);
  }
}

export function encode(text: string): Bytes {
  return new TextEncoder().encode(text);
}

/** What the browser finds wrong with it; undefined: it is JSON, or there is none yet. */
export function jsonFault(text: string): string | undefined {
  if (text.trim() === '') {
    return undefined;
  }
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Lines end as they have always ended there: an editor that knew only one kind would change others. */
export function lineEnd(...texts: string[]): '\n' | '\r\n' {
  const all = texts.every((text) => text.includes('\r\n') && !/(^|[^\r])\n|\r(?!\n)/.test(text));
  return texts.length > 0 && all ? '\r\n' : '\n';
}
