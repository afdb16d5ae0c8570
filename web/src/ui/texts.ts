import { defineTexts } from '../i18n';

export const say = defineTexts(
  {
    close: 'Close',
    copied: 'Copied.',
    copy: 'Copy',
    copy_failed: 'The browser does not allow it to be copied.',
    failed: 'That has failed',
    loading: 'Loading',
    no_auth: 'Not allowed: the right to {right} is missing',
    retry: 'Try again',
    right_admin: 'change the ACL',
    right_create: 'create children',
    right_delete: 'delete children',
    right_read: 'read',
    right_write: 'write',
  },
  {
    close: '关闭',
    copied: '已复制。',
    copy: '复制',
    copy_failed: '浏览器不允许复制。',
    failed: '操作失败',
    loading: '加载中',
    no_auth: '不允许：缺少“{right}”权限',
    retry: '重试',
    right_admin: '修改 ACL',
    right_create: '创建子节点',
    right_delete: '删除子节点',
    right_read: '读取',
    right_write: '写入',
  },
);
