import { byteSize } from '../../../format/bytes';
import { toast } from '../../../ui/toast';
import { say } from './texts';

const READ_MAX = 32 << 20; // Bytes: more than any znode holds, and no more than a page can hold.

/** The bytes of the file that was chosen; undefined: there is none, or why it is not taken is said. */
export async function chosenFile(
  input: HTMLInputElement,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const [file] = input.files ?? [];
  if (file && file.size > READ_MAX) {
    toast(say('file_large', { size: byteSize(file.size) }), true);
    return undefined;
  }
  try {
    return file && new Uint8Array(await file.arrayBuffer());
  } catch (error) {
    toast(say('file_unread', { detail: (error as Error).message }), true);
    return undefined;
  }
}
