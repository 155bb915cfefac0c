// Tours of super peers: what to run, and what there is to see in which round. The figures are those of
// seed 1; a test compares them.

const base = { method: 'tokens', space: 'plane2', nodes: 800, share: 2, capacity: 0, seed: 1, churn: 'none' }

export const tours = [
  {
    name: 'repulsion', en: 'Tokens repel each other', es: 'Los tokens se repelen', run: base,
    stops: [
      [6, '800 nodes, of which 2 % are to serve the rest: 16 tokens. A registrar of the DHT has given each to some node. So far no node is served.', '800 nodos, de los que el 2 % ha de servir a los demás: 16 tokens. Un registrador de la DHT ha dado cada uno a un nodo cualquiera. Aún no se sirve a ningún nodo.'],
      [9, 'Each token is pushed away by the others, as if they had the same charge. 15 of 16 moved in this round: the mean way to a super peer is 11.3 ms.', 'A cada token lo empujan los otros, como si tuvieran la misma carga. En esta ronda se movieron 15 de 16: el camino medio hasta un super peer es de 11,3 ms.'],
      [30, 'The moves become few, and the tokens lie evenly: 9.8 ms, and the largest load fell from 113 nodes to 68.', 'Los movimientos son ya pocos, y los tokens quedan repartidos: 9,8 ms, y la mayor carga bajó de 113 nodos a 68.'],
      [80, '9.5 ms. Choose the method "random", which leaves each token where it began: 14.4 ms in the same space, and a load of 126.', '9,5 ms. Elija el método «random», que deja cada token donde empezó: 14,4 ms en el mismo espacio, y una carga de 126.'],
    ],
  },
  {
    name: 'prefix', en: 'A reserved prefix', es: 'Un prefijo reservado', run: { ...base, method: 'prefix-exact' },
    stops: [
      [5, 'Another way: a node is a super peer if its hashed id begins with so many zeros. No token, no messages about one: every node computes it from the list.', 'Otra manera: un nodo es super peer si su id resumido empieza por tantos ceros. Sin tokens, y sin mensajes sobre ellos: cada nodo lo calcula de la lista.'],
      [6, 'All are served at once, and the load is even: 64 nodes at most. But ids do not depend on places: the mean way is 55.8 ms, five times that of tokens.', 'Todos quedan servidos enseguida, con carga pareja: 64 nodos como máximo. Pero los ids no dependen de los lugares: el camino medio es de 55,8 ms, cinco veces el de los tokens.'],
      [40, 'Nothing moves, however long it runs: 1.6 messages a node and round, tokens take 2 to 5 while they move. That is the choice.', 'Nada se mueve, por mucho que dure: 1,6 mensajes por nodo y ronda; los tokens cuestan de 2 a 5 mientras se mueven. Esa es la elección.'],
    ],
  },
  {
    name: 'churn', en: 'A fifth of the nodes goes', es: 'Se va un quinto de los nodos', run: { ...base, churn: '20%@40' },
    stops: [
      [40, 'The tokens lie well: 9.6 ms. Now a fifth of all nodes is replaced at one moment, without notice. How many of 16 super peers go with them?', 'Los tokens están bien puestos: 9,6 ms. Ahora se sustituye de golpe un quinto de los nodos, sin aviso. ¿Cuántos de los 16 super peers se van con ellos?'],
      [41, 'Five. 22 % of the nodes have no super peer (red). They choose another that is alive as soon as a lease has run out.', 'Cinco. El 22 % de los nodos queda sin super peer (rojo). Eligen otro vivo en cuanto se agota un plazo.'],
      [45, 'Registrars have given the lost tokens to other nodes: 16 again, and 3 % are not served.', 'Los registradores han dado los tokens perdidos a otros nodos: otra vez 16, y queda sin servir un 3 %.'],
      [60, 'The new tokens are pushed to where they are missed: from 12.3 to 10.8 ms, and all nodes are served.', 'Los tokens nuevos son empujados adonde faltan: de 12,3 a 10,8 ms, y se sirve a todos.'],
    ],
  },
]
