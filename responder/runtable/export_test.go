package runtable

// EndOverdue is what keepHouse does once a minute.
var EndOverdue = (*Table).endOverdue
