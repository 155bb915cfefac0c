package lab

// city is a place with many nodes. Weight is roughly its population on the network in millions;
// only proportions matter.
type city struct {
	name     string
	lat, lon float64 // degrees
	weight   float64
}

// cities returns large cities worldwide, with rounded coordinates.
func cities() []city {
	return []city{
		{"Tokyo", 35.7, 139.7, 34}, {"Osaka", 34.7, 135.5, 17}, {"Nagoya", 35.2, 136.9, 8}, {"Fukuoka", 33.6, 130.4, 5},
		{"Sapporo", 43.1, 141.3, 2.4}, {"Seoul", 37.6, 127.0, 24}, {"Busan", 35.2, 129.1, 4}, {"Shanghai", 31.2, 121.5, 23},
		{"Beijing", 39.9, 116.4, 18}, {"Guangzhou", 23.1, 113.3, 14}, {"Shenzhen", 22.5, 114.1, 12}, {"Chengdu", 30.6, 104.1, 11},
		{"Chongqing", 29.6, 106.5, 9}, {"Wuhan", 30.6, 114.3, 9}, {"Tianjin", 39.1, 117.2, 9}, {"Xi'an", 34.3, 108.9, 7},
		{"Nanjing", 32.1, 118.8, 7}, {"Hangzhou", 30.3, 120.2, 8}, {"Harbin", 45.8, 126.5, 4}, {"Hong Kong", 22.3, 114.2, 7},
		{"Taipei", 25.0, 121.5, 7}, {"Manila", 14.6, 121.0, 16}, {"Cebu", 10.3, 123.9, 2}, {"Jakarta", -6.2, 106.8, 22},
		{"Surabaya", -7.3, 112.7, 5}, {"Bandung", -6.9, 107.6, 4}, {"Singapore", 1.35, 103.8, 5.6}, {"Kuala Lumpur", 3.1, 101.7, 7},
		{"Bangkok", 13.8, 100.5, 13}, {"Ho Chi Minh City", 10.8, 106.7, 9}, {"Hanoi", 21.0, 105.8, 7}, {"Yangon", 16.8, 96.2, 3},
		{"Dhaka", 23.8, 90.4, 11}, {"Kolkata", 22.6, 88.4, 9}, {"Delhi", 28.6, 77.2, 21}, {"Mumbai", 19.1, 72.9, 16},
		{"Bengaluru", 13.0, 77.6, 10}, {"Chennai", 13.1, 80.3, 8}, {"Hyderabad", 17.4, 78.5, 8}, {"Ahmedabad", 23.0, 72.6, 5},
		{"Pune", 18.5, 73.9, 5}, {"Colombo", 6.9, 79.9, 2}, {"Karachi", 24.9, 67.0, 8}, {"Lahore", 31.5, 74.3, 6},
		{"Islamabad", 33.7, 73.1, 2}, {"Tehran", 35.7, 51.4, 11}, {"Baghdad", 33.3, 44.4, 5}, {"Riyadh", 24.7, 46.7, 7},
		{"Jeddah", 21.5, 39.2, 4}, {"Dubai", 25.2, 55.3, 4}, {"Doha", 25.3, 51.5, 2}, {"Kuwait City", 29.4, 48.0, 3},
		{"Tel Aviv", 32.1, 34.8, 4}, {"Amman", 31.9, 35.9, 3}, {"Istanbul", 41.0, 29.0, 14}, {"Ankara", 39.9, 32.9, 5},
		{"Izmir", 38.4, 27.1, 3}, {"Tashkent", 41.3, 69.2, 2.5}, {"Almaty", 43.2, 76.9, 2}, {"Moscow", 55.8, 37.6, 17},
		{"Saint Petersburg", 59.9, 30.3, 6}, {"Yekaterinburg", 56.8, 60.6, 1.6}, {"Novosibirsk", 55.0, 82.9, 1.6}, {"Vladivostok", 43.1, 131.9, 0.7},
		{"Kyiv", 50.5, 30.5, 3}, {"Warsaw", 52.2, 21.0, 3}, {"Prague", 50.1, 14.4, 2}, {"Vienna", 48.2, 16.4, 2.6},
		{"Budapest", 47.5, 19.0, 2.6}, {"Bucharest", 44.4, 26.1, 2.2}, {"Sofia", 42.7, 23.3, 1.4}, {"Athens", 38.0, 23.7, 3.3},
		{"Rome", 41.9, 12.5, 4}, {"Milan", 45.5, 9.2, 5}, {"Naples", 40.9, 14.3, 2.6}, {"Zurich", 47.4, 8.5, 1.4},
		{"Munich", 48.1, 11.6, 2.8}, {"Frankfurt", 50.1, 8.7, 2.6}, {"Berlin", 52.5, 13.4, 4.4}, {"Hamburg", 53.6, 10.0, 3},
		{"Cologne", 50.9, 7.0, 8}, {"Amsterdam", 52.4, 4.9, 6}, {"Brussels", 50.9, 4.4, 3}, {"Paris", 48.9, 2.4, 11.5},
		{"Lyon", 45.8, 4.8, 2}, {"Marseille", 43.3, 5.4, 1.7}, {"London", 51.5, -0.1, 13}, {"Manchester", 53.5, -2.2, 5},
		{"Glasgow", 55.9, -4.3, 1.8}, {"Dublin", 53.3, -6.3, 1.9}, {"Madrid", 40.4, -3.7, 6.4}, {"Barcelona", 41.4, 2.2, 5},
		{"Lisbon", 38.7, -9.1, 2.8}, {"Copenhagen", 55.7, 12.6, 2}, {"Stockholm", 59.3, 18.1, 2.3}, {"Oslo", 59.9, 10.8, 1.5},
		{"Helsinki", 60.2, 24.9, 1.5}, {"Riga", 56.9, 24.1, 0.9}, {"Casablanca", 33.6, -7.6, 4}, {"Algiers", 36.8, 3.1, 3},
		{"Tunis", 36.8, 10.2, 2}, {"Cairo", 30.0, 31.2, 16}, {"Lagos", 6.5, 3.4, 10}, {"Abuja", 9.1, 7.4, 2},
		{"Accra", 5.6, -0.2, 3}, {"Abidjan", 5.3, -4.0, 3}, {"Dakar", 14.7, -17.5, 2}, {"Kinshasa", -4.3, 15.3, 3},
		{"Luanda", -8.8, 13.2, 2}, {"Nairobi", -1.3, 36.8, 4}, {"Addis Ababa", 9.0, 38.7, 2}, {"Dar es Salaam", -6.8, 39.3, 2.5},
		{"Johannesburg", -26.2, 28.0, 8}, {"Cape Town", -33.9, 18.4, 3.5}, {"Durban", -29.9, 31.0, 2.5}, {"Sydney", -33.9, 151.2, 5},
		{"Melbourne", -37.8, 145.0, 5}, {"Brisbane", -27.5, 153.0, 2.5}, {"Perth", -31.9, 115.9, 2}, {"Auckland", -36.8, 174.8, 1.6},
		{"New York", 40.7, -74.0, 19}, {"Boston", 42.4, -71.1, 4.8}, {"Philadelphia", 40.0, -75.2, 6}, {"Washington", 38.9, -77.0, 8},
		{"Atlanta", 33.7, -84.4, 6}, {"Miami", 25.8, -80.2, 6}, {"Chicago", 41.9, -87.6, 9}, {"Detroit", 42.3, -83.0, 4},
		{"Minneapolis", 45.0, -93.3, 3.5}, {"Dallas", 32.8, -96.8, 7}, {"Houston", 29.8, -95.4, 7}, {"Denver", 39.7, -105.0, 3},
		{"Phoenix", 33.4, -112.1, 4.8}, {"Los Angeles", 34.1, -118.2, 16}, {"San Francisco", 37.8, -122.4, 7}, {"Seattle", 47.6, -122.3, 4},
		{"Toronto", 43.7, -79.4, 6}, {"Montreal", 45.5, -73.6, 4}, {"Vancouver", 49.3, -123.1, 2.6}, {"Mexico City", 19.4, -99.1, 17},
		{"Guadalajara", 20.7, -103.3, 4}, {"Monterrey", 25.7, -100.3, 4}, {"Guatemala City", 14.6, -90.5, 2}, {"Bogotá", 4.7, -74.1, 8},
		{"Medellín", 6.2, -75.6, 3}, {"Caracas", 10.5, -66.9, 2}, {"Quito", -0.2, -78.5, 1.6}, {"Lima", -12.0, -77.0, 8},
		{"Santiago", -33.4, -70.7, 6}, {"Buenos Aires", -34.6, -58.4, 13}, {"Montevideo", -34.9, -56.2, 1.5}, {"São Paulo", -23.6, -46.6, 18},
		{"Rio de Janeiro", -22.9, -43.2, 10}, {"Belo Horizonte", -19.9, -43.9, 4.5}, {"Brasília", -15.8, -47.9, 3.5}, {"Recife", -8.1, -34.9, 3},
		{"Fortaleza", -3.7, -38.5, 3}, {"Porto Alegre", -30.0, -51.2, 3.5}, {"Havana", 23.1, -82.4, 1}, {"Honolulu", 21.3, -157.9, 0.8},
	}
}
