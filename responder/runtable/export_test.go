package runtable

// EndOverdue is the part of maintain that ends overdue questions.
var EndOverdue = (*Table).endOverdue
