package responder

// EndOverdue is what keepHouse does once a minute.
var EndOverdue = (*Responder).endOverdue
