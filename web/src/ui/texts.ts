import { defineTexts } from '../i18n';

export const say = defineTexts(
  {
    close: 'Close',
    copied: 'Copied.',
    copy: 'Copy',
    copy_failed: 'The browser does not allow it to be copied.',
    failed: 'That has failed',
    loading: 'Loading',
    no_auth: 'You may not see this',
    retry: 'Try again',
  },
  {
    close: '关闭',
    copied: '已复制。',
    copy: '复制',
    copy_failed: '浏览器不允许复制。',
    failed: '操作失败',
    loading: '加载中',
    no_auth: '没有查看权限',
    retry: '重试',
  },
);
